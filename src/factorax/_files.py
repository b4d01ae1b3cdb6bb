"""Atomic writes, and safe reads and writes in folders that other users may have prepared."""

import errno
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

MIB = 2**20
MAX_JSON_BYTES = 64 * MIB
MAX_JSON_VALUES = 6_000_000  # a value of two bytes in the file may take sixty in memory


def write_whole(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Write to a temporary file next to `path` and rename it, so that a crash or a full disk never leaves half a file.

    A symbolic link at `path` is replaced, not followed.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"path: no folder {str(path.parent)!r}; create it to write {path.name!r}")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)  # can only be read by setting it
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp creates files that only their owner can read
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk, if the operating system supports it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # on Windows, folders cannot be opened
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):  # not supported by this file system
            raise
    finally:
        os.close(handle)


def append_text(path: Path, text: str) -> None:
    """Append to a file, which is created if missing; raise FileExistsError if the path is a link, a pipe or a device,
    which may never accept the text."""
    check_not_linked(path)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):
        flags |= getattr(os, name, 0)
    try:
        handle = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a pipe that nobody reads
            raise FileExistsError(f"out: {str(path)!r} is not a regular file; remove it") from None
        raise
    with os.fdopen(handle, "ab") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise FileExistsError(f"out: {str(path)!r} is not a regular file; remove it")
        file.write(text.encode())


def check_not_linked(path: Path) -> None:
    """Raise FileExistsError if a path is a symbolic link, or one of several hard links to a file.

    Writing to it would change a file elsewhere.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(status.st_mode):
        raise FileExistsError(f"out: {str(path)!r} is a symbolic link, want a plain file; remove it")
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        raise FileExistsError(f"out: {str(path)!r} is a hard link, want a separate file; replace it by a copy")


def read_bytes(path: Path, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes.

    Raises FileNotFoundError if there is no file, and ValueError for anything else, such as a pipe or a device, which
    might never end.
    """
    with open_plain(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > limit else file.read(limit + 1)
    if size > limit or len(data) > limit:
        raise ValueError(f"{path}: has more than {limit:,} bytes, which is the limit for such a file")
    return data


def read_lines(path: Path, limit: int) -> Iterator[bytes]:
    r"""Yield the lines of a regular file of at most `limit` bytes, with their ``\n``, without reading it as a whole.

    Raises ValueError for a longer file, or for a line that is longer than a JSON file may be.
    """
    with open_plain(path) as file:
        if os.fstat(file.fileno()).st_size > limit:
            raise ValueError(f"{path}: has more than {limit:,} bytes, which is the limit for such a file")
        while line := file.readline(MAX_JSON_BYTES + 1):
            if len(line) > MAX_JSON_BYTES:
                raise ValueError(f"{path}: has a line of more than {MAX_JSON_BYTES:,} bytes")
            yield line


def open_plain(path: Path) -> IO[bytes]:
    """Open a regular file for reading; raise ValueError for a folder, a pipe, a device or a loop of links."""
    # opening a pipe would block otherwise
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG) or path.is_dir():
            raise ValueError(f"{path}: cannot be read as a file ({error.strerror})") from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ValueError(f"{path}: is not a regular file")
    return os.fdopen(handle, "rb")


def read_json(path: Path, limit: int = MAX_JSON_BYTES) -> Any:
    """Return the content of a JSON file; raise FileNotFoundError if it is missing and ValueError if it is invalid."""
    return parse_json(read_bytes(path, limit))


def parse_json(data: bytes | str) -> Any:
    """Return the content of untrusted JSON; raise ValueError if it is invalid, too deeply nested or too large."""
    check_json(data)
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def check_json(data: bytes | str) -> None:
    """Raise ValueError if JSON has more values than `read_json` accepts, before they take memory."""
    data = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    values = sum(map(data.count, (b",", b"[", b"{")))
    if values > MAX_JSON_VALUES or len(data) > MAX_JSON_BYTES:
        raise ValueError(
            f"{len(data):,} bytes with about {values:,} values, more than the limits of {MAX_JSON_BYTES:,} bytes and "
            f"{MAX_JSON_VALUES:,} values"
        )


def remove_leftovers(folder: Path, *names: str) -> None:
    """Remove temporary files that `write_whole` left under these names when its process was killed."""
    for name in names:
        for path in folder.glob(f".{name}.*"):
            if path.is_file() or path.is_symlink():
                path.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write strict, indented JSON."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(path, lambda file: file.write(text.encode()))
