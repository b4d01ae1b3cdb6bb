"""Checkpoints with any arrays and metadata, and a checksum that fits."""

import hashlib
import json

from safetensors.numpy import save


def write_signed(path, arrays, about):
    """Write arrays and a JSON object about them as `factorax.ppo.checkpoints` would."""
    data = save(arrays, metadata={"factorax": json.dumps(about), "sha256": "0" * 64})
    path.write_bytes(data.replace(b"0" * 64, hashlib.sha256(data).hexdigest().encode(), 1))
