"""Settings for every test, and the command `factorax` for those of it."""

import os
import signal
import sys

import jax
import pytest
from hypothesis import settings

from factorax import cli

settings.register_profile("factorax", deadline=None, max_examples=60, print_blob=True)
settings.load_profile("factorax")


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
