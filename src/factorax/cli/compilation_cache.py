"""A cache of compiled programs on disk, so that a command that is run again does not compile again."""

import hashlib
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

SETTING = "FACTORAX_COMPILATION_CACHE"
"""Environment variable with the folder of the cache, or ``off``."""
JAX_FOLDER = "JAX_COMPILATION_CACHE_DIR"
MAX_SIZE = 2**30
"""Size of the cache in bytes above which JAX deletes the programs that were not used for longest."""


def use_compilation_cache() -> None:
    """Make JAX store compiled programs in a folder of the user; must be called before JAX is imported.

    The folder is ``$XDG_CACHE_HOME/factorax/compiled``, with one folder per type of processor, because XLA compiles for
    the instructions of the machine. Does nothing if the folder is not writable, if ``FACTORAX_COMPILATION_CACHE`` is
    ``off``, or if ``JAX_COMPILATION_CACHE_DIR`` is set. With jaxlib before 0.10, the folder must be named by
    ``FACTORAX_COMPILATION_CACHE``: these versions log false errors about the processor for every program they load.
    """
    setting = os.environ.get(SETTING, "")
    if setting.lower() in ("off", "0", "none") or JAX_FOLDER in os.environ or "jax" in sys.modules:
        return
    if not setting and tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 10):
        return
    folder = Path(setting) if setting else _default()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: no home directory
        return
    if os.access(folder, os.W_OK | os.X_OK):
        os.environ[JAX_FOLDER] = str(folder)
        os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(MAX_SIZE))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")


def _default() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "factorax" / "compiled" / hashlib.sha256(_processor().encode()).hexdigest()[:12]


def _processor() -> str:
    """Return a text that distinguishes processors with different instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {platform.processor()} {flags}"
