"""A lock on the folder of a run, which only one process may use at a time."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .._files import check_not_linked

fcntl: Any = None
msvcrt: Any = None
try:
    import fcntl
except ImportError:
    with suppress(ImportError):  # systems without either module have no processes
        import msvcrt

LOCK = ".lock"
_handles: set[int] = set()
"""Files that this process has locked."""
_IN_USE = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


@contextmanager
def held(out: Path) -> Iterator[None]:
    """Lock the folder `out` for this process. The lock ends with the process, however the process ends.

    The lock is that of the operating system: a lock file would outlive a killed process. On a file system without
    locks an error is raised. The file is never written to.
    """
    path = out / LOCK
    if path.is_symlink():  # a hard link is harmless, since the file is not written to
        check_not_linked(path)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)
    _handles.add(handle)
    try:
        if not _locked(handle):
            raise FileExistsError(f"out: {str(out)!r} is in use by another process; want another folder")
        yield
    finally:
        if handle in _handles:  # not in a forked child
            _handles.discard(handle)
            os.close(handle)


def _close_in_child() -> None:
    """Close the locked files in a forked process, such as a simulator, which would hold the lock after its parent."""
    while _handles:
        os.close(_handles.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


def _locked(handle: int) -> bool:
    """Lock an open file and return whether that succeeded; the lock ends when the file is closed."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        elif msvcrt is not None:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    except OSError as error:
        if error.errno in _IN_USE:
            return False
        raise
    return True
