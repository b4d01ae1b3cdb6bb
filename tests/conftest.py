"""Settings for every test, and the command `factorax` for those of it."""

import atexit
import os
import shutil
import signal
import sys
import tempfile

import jax
import pytest
from hypothesis import settings

from factorax import cli

settings.register_profile("factorax", deadline=None, max_examples=60, print_blob=True)
settings.load_profile("factorax")


def pytest_configure(config):
    """What one test has compiled, the others need not: neither those of other processes, nor the commands they run."""
    if not hasattr(config, "workerinput") and "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        folder = tempfile.mkdtemp(prefix="factorax-compiled-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ |= {
            "JAX_COMPILATION_CACHE_DIR": folder,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def pytest_collection_modifyitems(items):
    if "FACTORAX_NIGHTLY" not in os.environ:
        for item in items:
            if item.get_closest_marker("nightly"):
                item.add_marker(pytest.mark.skip(reason="takes long: make nightly"))


@pytest.fixture(scope="module")
def compiled_in_haste():
    """Programs that run for a moment: XLA's optimisations take longer than they save."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
    jax.clear_caches()  # what was compiled in haste rounds otherwise, and must not serve other tests


@pytest.fixture
def surroundings(tmp_path, monkeypatch):
    """A folder of its own, lines that are not broken, and the handler of signals as it was."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def factorax(monkeypatch, capsys):
    """Run the command in this process: exit code, output, errors."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["factorax", *map(str, arguments)])
        try:
            code = cli.main()
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    return run
