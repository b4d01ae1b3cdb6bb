"""Compiled programs on disk, so that a command that was run before starts without compiling."""

import hashlib
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

SETTING = "FACTORAX_COMPILATION_CACHE"
"""Environment variable: the folder of the cache, or ``off``."""
JAX_FOLDER = "JAX_COMPILATION_CACHE_DIR"
LARGEST = 2**30
"""Bytes of the cache above which the oldest half is deleted."""


def use_compilation_cache() -> None:
    """Let JAX keep compiled programs in a folder of the user's; JAX must not be imported yet.

    The folder is ``$XDG_CACHE_HOME/factorax/programs``, one for every kind of processor: XLA compiles for the
    instructions of the machine. Nothing happens if the folder cannot be written to, if ``FACTORAX_COMPILATION_CACHE``
    is ``off``, or if ``JAX_COMPILATION_CACHE_DIR`` says where programs are kept. With jaxlib before 0.10 the folder has
    to be named: these versions log false errors about the processor for every program that they load.
    """
    setting = os.environ.get(SETTING, "")
    if setting.lower() in ("off", "0", "none") or JAX_FOLDER in os.environ or "jax" in sys.modules:
        return
    if not setting and tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 10):
        return
    folder = Path(setting) if setting else _default()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _delete_old(folder, LARGEST)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return
    if os.access(folder, os.W_OK | os.X_OK):
        os.environ[JAX_FOLDER] = str(folder)
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")


def _default() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "factorax" / "programs" / hashlib.sha256(_processor().encode()).hexdigest()[:12]


def _processor() -> str:
    """Return what tells processors with different instructions apart."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {platform.processor()} {flags}"


def _delete_old(folder: Path, most: int) -> None:
    """Delete the oldest files of a folder that holds more bytes than `most`, until half of them are left."""
    files = sorted(((file.stat(), file) for file in folder.iterdir() if file.is_file()), key=lambda x: x[0].st_mtime)
    total = sum(stat.st_size for stat, _ in files)
    if total <= most:
        return
    for stat, file in files:
        if total <= most // 2:
            return
        file.unlink(missing_ok=True)
        total -= stat.st_size
