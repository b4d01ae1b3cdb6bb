"""Checkpoints with any arrays and metadata, and a checksum that fits."""

from factorax.ppo import checkpoints


def write_signed(path, arrays, about):
    """Write arrays and a JSON object about them as `factorax.ppo.checkpoints` would."""
    checkpoints.write(path, arrays, {"format": None} | about)
