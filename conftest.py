"""Settings for all tests, and a fixture that runs the command `factorax`."""

import ctypes
import gc
import os
import re
import shutil
import signal
import sys
from importlib.metadata import version
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
"""XLA options with which a training step compiles in less than half the time and runs equally fast: one LLVM module
instead of 32, and fused operations without MLIR. Versions of XLA without an alternative to MLIR ignore the latter."""
LONG = (
    *("test_docs_site.py", "test_docs.py", "test_page_browser.py", "test_folder_killed.py", "test_packaging.py"),
    *("test_ray_actors.py", "test_compiled.py", "test_jax_policy.py", "test_jaxmarl.py", "test_brax.py"),
    *("test_playground.py", "test_experiment.py", "test_lane_simulator.py", "test_lane_simulator_fidelity.py"),
    *("test_learner.py", "test_recurrent.py", "test_credit_torch.py", "test_spaces.py", "test_devices.py"),
    *("test_film.py", "test_gated.py", "test_beta.py"),
)
"""Files that take more than a quarter of a minute, the longest first: `make test-slow` runs them in this order, so that
none starts last."""
MAPS = 30_000
"""Memory maps at which `keep_memory_small` clears the caches: Linux allows a process 65,530, and an update takes about
900."""
memory = {"after collection": 0}


def pytest_configure(config):
    """Reduce compilation, which takes nearly all of the time: compile without most of XLA's optimisations, and share
    compiled programs between processes and the commands they run."""
    if not hasattr(config, "workerinput"):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK_TO_COMPILE}".strip()
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # PyTorch's threads would busy-wait for each other
        settings: dict[str, object] = {"jax_disable_most_optimizations": True}
        if "JAX_COMPILATION_CACHE_DIR" not in os.environ and hasattr(config, "cache"):
            # Kept for the next run: JAX keys cached programs by its version and their source.
            settings |= {
                "jax_compilation_cache_dir": str(config.cache.mkdir("compiled")),
                "jax_persistent_cache_min_compile_time_secs": 0.0,
                "jax_persistent_cache_min_entry_size_bytes": -1,
            }
        for name, value in settings.items():
            os.environ[name.upper()] = str(value)
            jax.config.update(name, value)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Exempt imported modules from garbage collection, which would otherwise search them during collection and in every
    test that calls it. Collect less often than by default: tracing allocates much and leaves few cycles."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)


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
    """Keep a worker of `make test` below two gigabytes. Most of its memory is free, left over from compilation, and is
    returned to the system first. If this is not enough, compiled programs are released and compiled again when needed.
    With optional packages, which alone use more than one gigabyte, a worker may use more, because it would otherwise
    release its programs after most files."""
    yield
    has_extras = memory["after collection"] > 800 << 20
    limit = max(1200 << 20, memory["after collection"] + (1000 << 20 if has_extras else 600 << 20))
    if resident() > limit:
        return_free_memory()
    if resident() > limit or memory_maps() > MAPS:
        eqx.clear_caches()
        jax.clear_caches()
        gc.collect()
        return_free_memory()


def return_free_memory():
    """Return freed memory to the system, if the C library supports it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def resident():
    """Return the resident memory of this process in bytes; 0 if unknown."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.exists() else 0


def memory_maps():
    """Return the number of memory maps of this process; 0 if unknown."""
    maps = Path("/proc/self/maps")
    return maps.read_bytes().count(b"\n") if maps.exists() else 0


@pytest.fixture
def surroundings(tmp_path, monkeypatch):
    """Run the test in a temporary folder, with wide terminal lines, and restore signal handlers afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def factorax(monkeypatch, capsys):
    """Return a function that runs the command in this process and returns exit code, output and errors."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["factorax", *map(str, arguments)])
        try:
            code = cli.main()
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def same_help(factorax, monkeypatch):
    """Return a function that compares the help of a command with the file of its name in a folder.

    With WRITE_HELP in the environment, it writes the file first. Another version of tyro has another layout.
    """
    locked = re.search(r"^tyro==(\S+)", (Path(__file__).parent / "constraints.txt").read_text(), re.MULTILINE)
    if locked is None or version("tyro") != locked[1]:
        pytest.skip("needs the tyro of constraints.txt")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")

    def compare(name, folder):
        code, text, error = factorax(name, "--help")
        assert (code, error) == (0, "")
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
        if os.environ.get("WRITE_HELP"):
            (folder / f"{name}.txt").write_text(text, encoding="utf-8")
        assert text == (folder / f"{name}.txt").read_text(encoding="utf-8")

    return compare


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
