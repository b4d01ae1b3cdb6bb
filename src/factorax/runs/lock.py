"""A lock on the folder of a run: one process at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

LOCK = ".lock"


@contextmanager
def held(out: Path) -> Iterator[None]:
    """Holds the folder `out` for this process; the hold ends with the process, however that ends.

    The lock is the operating system's. A lock by the mere existence of a file would outlive a killed process, so a file
    system without locks is an error.
    """
    path = out / LOCK
    if path.is_symlink():
        raise FileExistsError(f"out: {str(path)!r} is a symbolic link, want a plain file; remove it")
    lock = FileLock(path, fallback_to_soft=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise FileExistsError(f"out: {str(out)!r} is in use by another process; give another folder") from None
    try:
        yield
    finally:
        lock.release()
