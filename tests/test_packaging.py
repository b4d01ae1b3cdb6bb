"""What is shipped, and the versions it is shipped for: lock files, source distribution and wheel."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
DIRECT = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
OF_TESTS = (*EXTRAS["test"], *EXTRAS["report"], *EXTRAS["tensorboard"])
TESTS = [Requirement(text) for text in OF_TESTS if not text.startswith("factorax")]
LOCKS = sorted(ROOT.glob("constraints*.txt"))


def pins(path):
    """From the name of a package to its version in a lock file."""
    lines = (line.split("==") for line in path.read_text(encoding="utf-8").splitlines())
    return {canonicalize_name(name): Version(version) for name, version in lines}


def lower_bound(requirement):
    (bound,) = [Version(part.version) for part in requirement.specifier if part.operator == ">="]
    return bound


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_lock_file_lines_are_name_and_version(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line)] == []
    assert len(pins(path)) == len(lines), "a package is there twice"


@pytest.mark.parametrize("requirement", DIRECT + TESTS, ids=str)
def test_the_oldest_lock_is_at_the_lower_bounds(requirement):
    assert pins(ROOT / "constraints-oldest.txt")[canonicalize_name(requirement.name)] == lower_bound(requirement)


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-newest.txt"])
def test_no_lock_is_older_than_the_oldest(name):
    oldest, others = pins(ROOT / "constraints-oldest.txt"), pins(ROOT / name)
    assert {r.name for r in DIRECT + TESTS if canonicalize_name(r.name) not in others} == set()
    assert {package for package in oldest.keys() & others.keys() if others[package] < oldest[package]} == set()


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_jax_and_jaxlib_have_the_same_version(path):
    assert pins(path)["jax"] == pins(path)["jaxlib"]


def hatch(folder, *arguments):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", *arguments], cwd=folder, capture_output=True, check=True
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The source distribution, a wheel made from it, and a wheel made from the working tree."""
    if find_spec("hatchling") is None:
        pytest.skip("needs hatchling, in the extra test")
    out = tmp_path_factory.mktemp("dist")
    hatch(ROOT, "--target", "sdist", "--directory", str(out))
    hatch(ROOT, "--target", "wheel", "--directory", str(out / "direct"))
    (sdist,) = out.glob("factorax-*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(out, filter="data")
    hatch(out / sdist.name.removesuffix(".tar.gz"), "--target", "wheel", "--directory", str(out))
    (wheel,), (direct,) = out.glob("*.whl"), (out / "direct").glob("*.whl")
    return sdist, wheel, direct


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_is_the_package_with_its_data_and_nothing_else(built):
    source = ROOT / "src"
    files = (path for path in (source / "factorax").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    package = {path.relative_to(source).as_posix(): path.read_bytes() for path in files}
    held = contents(built[1])
    information = {name for name in held if name.partition("/")[0].endswith(".dist-info")}
    assert {name.partition("/")[2] for name in information} == {
        *("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
    }
    assert {name: content for name, content in held.items() if name not in information} == package


def test_the_wheel_needs_neither_simulators_nor_data_of_the_paper(built):
    held = contents(built[1])
    (text,) = (text.decode() for name, text in held.items() if name.endswith(".dist-info/METADATA"))
    required = [Requirement(line) for line in re.findall("^Requires-Dist: (.*)$", text, re.MULTILINE)]
    plain = {canonicalize_name(each.name) for each in required if "extra" not in str(each.marker)}
    assert plain.isdisjoint({"eclipse-sumo", "libsumo", "traci", "ev2gym", "ray", "torch"})
    assert [name for name in held if re.search(r"sumo|published", name)] == []


def test_the_source_distribution_gives_the_same_wheel_as_the_tree(built):
    _, wheel, direct = built
    assert contents(wheel) == contents(direct)


def test_the_source_distribution_has_what_its_tests_need(built):
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "Makefile", "LICENSE", "README.md", "CHANGELOG.md", ".ci/find-python"} <= names
    assert {path.name for path in LOCKS} <= names
    tests = (path for path in (ROOT / "tests").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert {path.relative_to(ROOT).as_posix() for path in tests} <= names
    assert [name for name in names if name.startswith((".venv", "out/", "dist/")) or "__pycache__" in name] == []


def link_requirements(wheel, site):
    """Put what the wheel says it requires, and what that requires in turn, into an environment: links to what is
    installed here, because unpacking it again takes a minute. Nothing else is there to be imported by accident."""
    text = next(text for name, text in contents(wheel).items() if name.endswith(".dist-info/METADATA")).decode()
    required = [Requirement(line) for line in re.findall("^Requires-Dist: (.*)$", text, re.MULTILINE)]
    linked = set()
    while required:
        requirement = required.pop()
        extras = ("", *requirement.extras)
        applies = requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras)
        if not applies or (name := canonicalize_name(requirement.name)) in linked:
            continue
        linked.add(name)
        installed = metadata.distribution(name)
        for top in {file.parts[0] for file in installed.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(installed.locate_file(top))
        required += map(Requirement, installed.requires or ())


@pytest.mark.slow
def test_the_wheel_runs_in_an_empty_environment_from_another_folder(built, tmp_path):
    venv.create(tmp_path / "environment")
    scripts = tmp_path / "environment" / ("Scripts" if os.name == "nt" else "bin")
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command):
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    python, factorax = scripts / "python", scripts / "factorax"
    link_requirements(built[1], Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")))
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", built[1])
    run(*pip, "check")  # every requirement is there, in a version that will do
    package = run(python, "-c", "import factorax; print(factorax.__file__)")
    assert Path(package).is_relative_to(tmp_path / "environment")
    run(factorax, "train", "contextual-bandit:3", "--total-timesteps", "512", "--out", "run")  # reads its preset
    assert (tmp_path / "run" / "config.json").is_file()
    run(factorax, "evaluate", "run", "--episodes", "2")
