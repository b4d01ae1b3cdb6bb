"""Settings for every test, and the command `factorax` for those of it."""

import ctypes
import gc
import os
import shutil
import signal
import sys
from pathlib import Path

import equinox as eqx
import jax
import pytest
from hypothesis import settings

from factorax import cli

settings.register_profile("factorax", deadline=None, max_examples=60, print_blob=True)
settings.register_profile("other-versions", settings.get_profile("factorax"), max_examples=15)
settings.load_profile("factorax")


QUICK_TO_COMPILE = (
    "--xla_cpu_parallel_codegen_split_count=1 --xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters"
)
"""Options of XLA with which a training step compiles in under half the time and runs as fast: one LLVM module instead
of 32, and fused operations without MLIR, which versions of XLA that have no other way ignore."""
LONG = (
    *("test_docs_site.py", "test_docs.py", "test_page_browser.py", "test_packaging.py", "test_programs.py"),
    *("test_folder_killed.py", "test_ray_actors.py", "test_brax.py", "test_jaxmarl.py", "test_playground.py"),
    *("test_devices.py", "test_stable_baselines3.py", "test_sb3_ppo.py", "test_film.py", "test_train.py"),
)
"""Files of more than half a minute, the longest first: `make test-slow` keeps this order, so that none begins last."""
memory = {"after collection": 0}


def pytest_configure(config):
    """Nearly all of the time is spent compiling: compile without most of XLA's optimisations, and share what one test
    has compiled with the other processes and the commands they run."""
    if not hasattr(config, "workerinput"):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK_TO_COMPILE}".strip()
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # of PyTorch, whose threads wait for each other at full speed
        settings: dict[str, object] = {"jax_disable_most_optimizations": True}
        if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
            # Kept for the next run: JAX knows which of its versions compiled a program, and from what.
            settings |= {
                "jax_compilation_cache_dir": str(config.cache.mkdir("compiled")),
                "jax_persistent_cache_min_compile_time_secs": 0.1,
                "jax_persistent_cache_min_entry_size_bytes": -1,
            }
        for name, value in settings.items():
            os.environ[name.upper()] = str(value)
            jax.config.update(name, value)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported stays: the garbage collector need not search it, neither now nor in every test that calls it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))
    if "FACTORAX_NIGHTLY" not in os.environ:
        for item in items:
            if item.get_closest_marker("nightly"):
                item.add_marker(pytest.mark.skip(reason="takes long: make nightly"))


def pytest_collection_finish():
    memory["after collection"] = resident()


@pytest.fixture(autouse=True, scope="module")
def keep_memory_small():
    """A worker keeps below two gigabytes: most of what it holds is free, left over from compiling; where that is not
    enough, compiled programs, which stay in memory, are forgotten and compiled again when they are needed. Optional
    packages alone take more than one gigabyte, which is not forgotten with the programs."""
    yield
    limit = max(900 << 20, memory["after collection"] + (600 << 20))
    if resident() > limit:
        return_free_memory()
    if resident() > limit:
        eqx.clear_caches()
        jax.clear_caches()
        gc.collect()
        return_free_memory()


def return_free_memory():
    """Gives what was allocated and freed back to the system, where its C library can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def resident():
    """The bytes of memory that this process holds, as far as the system tells."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.exists() else 0


@pytest.fixture
def surroundings(tmp_path, monkeypatch):
    """A folder of its own, lines that are not broken, and the handlers of signals as they were."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


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


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium, one for all tests of a worker; they are marked `browser`, and each opens a page of its own."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright, in the extra browser")
    paths = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    executable = next((path for path in paths if path is not None), None)
    if executable is None:
        pytest.skip("needs Chromium, which apt-get install chromium installs")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=executable)
        yield chromium
        chromium.close()
