"""Files that are whole or not there at all."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def write_whole(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Write beside `path` and rename: a crash or a full disk never leaves half a file under its name."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"path: no folder {str(path.parent)!r} to write {path.name!r} to")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def remove_leftovers(folder: Path, *names: str) -> None:
    """Remove what `write_whole` had begun to write under these names when its process was killed."""
    for name in names:
        for path in folder.glob(f".{name}.*"):
            path.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write strict JSON, for people too."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(path, lambda file: file.write(text.encode()))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
