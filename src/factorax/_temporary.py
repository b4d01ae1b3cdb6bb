"""Temporary folders that are removed by the next process if their own process was killed."""

import contextlib
import os
import shutil
import tempfile
import time
import weakref
from pathlib import Path

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None

_HOUR = 3600.0


class TemporaryFolder:
    """A folder ``factorax-KIND-PID-…`` that is removed with this object and locked while in use.

    Creating one first removes abandoned folders of this user, which a killed process left behind.
    """

    def __init__(self, kind: str):
        parent = Path(tempfile.gettempdir())
        remove_abandoned(parent)
        self.path = Path(tempfile.mkdtemp(prefix=f"factorax-{kind}-{os.getpid()}-", dir=parent))
        handle = _locked(self.path)
        self.remove = weakref.finalize(self, _remove, self.path, handle, os.getpid())

    def empty(self) -> None:
        """Remove the contents of the folder."""
        for left in self.path.iterdir():
            with contextlib.suppress(OSError):
                left.unlink() if left.is_symlink() or not left.is_dir() else shutil.rmtree(left, ignore_errors=True)


def remove_abandoned(parent: Path) -> None:
    """Remove folders of this user that are not locked and have no running process.

    Process ids are reused, so after an hour only the lock counts.
    """
    if fcntl is None:
        return
    for path in parent.glob("factorax-*-*-*"):
        number = path.name.split("-")[-2]
        try:
            status = path.lstat()
            ours = status.st_uid == os.getuid() and os.path.isdir(path) and not path.is_symlink()
            old = time.time() - status.st_mtime > _HOUR
            if not ours or not number.isdecimal() or (_lives(int(number)) and not old):
                continue
            handle = _locked(path)
        except OSError:
            continue
        if handle is not None:
            _remove(path, handle, os.getpid())


def _locked(folder: Path) -> int | None:
    """Lock a folder and return its handle; None if it is locked already or locking is not supported."""
    if fcntl is None:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _remove(folder: Path, handle: int | None, owner: int) -> None:
    if os.getpid() != owner:  # this is a forked child of the owner
        return
    shutil.rmtree(folder, ignore_errors=True)
    if handle is not None:
        os.close(handle)


def _lives(number: int) -> bool:
    try:
        os.kill(number, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
