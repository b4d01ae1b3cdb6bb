"""An experiment as one small archive, to train on one machine and to score and plot on another.

``python -m factorax_paper.harness.packing FOLDER FILE.tar.gz`` packs what the same command needs to continue
there: settings, data, finished parts and final policies. Metrics are thinned, and unfinished runs are omitted. Unpack
with ``tar xzf FILE.tar.gz`` and run the experiment again with the same ``--out``.
"""

import hashlib
import io
import json
import re
import sys
import tarfile
from pathlib import Path

from factorax.runs.folder import METRICS, SCORE, read_metrics

_POINTS = 100
_COLUMNS = ("time/iterations", "time/total_timesteps", "time/time_elapsed", "time/fps", "rollout/ep_rew_mean")
_NOT_PLAYED = (".optimiser", ".environments")
"""Prefixes of arrays that only further training needs."""
_SIGNATURE = re.compile(rb'"sha256":"[0-9a-f]{64}"')


def pack(folder: Path, archive: Path) -> int:
    """Write the archive of an experiment's folder; return the number of runs in it."""
    runs = sorted(path.parent for path in (folder / "runs").rglob(SCORE))
    with tarfile.open(archive, "w:gz") as tar:
        for pattern in ("*.json", "data.csv", "figure.png", "parts/[0-9][0-9][0-9].npz"):
            for path in sorted(folder.glob(pattern)):
                tar.add(path, path.relative_to(folder.parent))
        for run in runs:
            name = run.relative_to(folder.parent)
            for kept in ("config.json", SCORE):
                tar.add(run / kept, name / kept)
            _add(tar, name / METRICS, _thinned(run))
            checkpoint = Path("checkpoints") / "last.safetensors"
            _add(tar, name / checkpoint, without_training((run / checkpoint).read_bytes()))
    return len(runs)


def without_training(checkpoint: bytes) -> bytes:
    """Return a checkpoint with zeros for optimizer and environment states, which compress to almost nothing.

    It can be played as before. To train it further, keep the original.
    """
    data = bytearray(checkpoint)
    start = 8 + int.from_bytes(data[:8], "little")
    for name, entry in json.loads(bytes(data[8:start])).items():
        if name.startswith(_NOT_PLAYED):
            first, last = (start + offset for offset in entry["data_offsets"])
            data[first:last] = bytes(last - first)
    # The checksum of `learning.checkpoints`: that of the file with zeros in its place.
    head = _SIGNATURE.sub(b'"sha256":"' + b"0" * 64 + b'"', bytes(data[:start]), count=1)
    digest = hashlib.sha256(head + data[start:]).hexdigest()
    return _SIGNATURE.sub(f'"sha256":"{digest}"'.encode(), head, count=1) + bytes(data[start:])


def _thinned(run: Path) -> bytes:
    """Return about a hundred lines of metrics, including the last, with the values for learning curves."""
    rows = read_metrics(run)
    rows = rows[:: -max(len(rows) // _POINTS, 1)][::-1]
    return "".join(json.dumps({k: row[k] for k in _COLUMNS if k in row}) + "\n" for row in rows).encode()


def _add(tar: tarfile.TarFile, name: Path, data: bytes) -> None:
    info = tarfile.TarInfo(str(name))
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


if __name__ == "__main__":
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    count = pack(source, target)
    print(f"{count} runs, {target.stat().st_size / 2**20:.1f} MiB in {target}")
