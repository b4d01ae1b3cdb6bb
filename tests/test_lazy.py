"""Names that are imported when they are first used."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import factorax as fx

SOURCE = Path(fx.__file__).parent
FILES = sorted(path for path in SOURCE.rglob("__init__.py") if "lazy_imports(__name__)" in path.read_text("utf-8"))
PACKAGES = [".".join(("factorax", *path.parent.relative_to(SOURCE).parts)) for path in FILES]
ROAD = (
    "InfluenceNetwork wrap FactoredPPO credit factor_baseline discover close_over check_problem variance_report report"
)


@pytest.mark.parametrize("package", PACKAGES)
def test_completion_shows_the_public_names_and_each_can_be_imported(package):
    module = importlib.import_module(package)
    assert dir(module) == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'no_such_name'"):
        module.no_such_name  # noqa: B018


def test_the_top_has_at_most_25_names_and_starts_with_the_road():
    assert fx.__all__[:10] == ROAD.split()
    assert len(fx.__all__) <= 25


def test_a_name_wins_over_the_submodule_of_the_same_name():
    code = "import factorax.discovery.discover, factorax.discovery as d; print(callable(d.discover))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_importing_the_package_loads_neither_jax_nor_gymnasium():
    code = "import sys, factorax; dir(factorax); print({'jax', 'gymnasium', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_command_starts_without_what_takes_long_to_import():
    code = "import sys, factorax.cli; print({'jax', 'scipy.stats', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


NOISY = """
import warnings
warnings.warn("this package is deprecated", DeprecationWarning)
warnings.warn("pkg_resources is deprecated as an API", UserWarning)
import os
if "PYGAME_HIDE_SUPPORT_PROMPT" not in os.environ:
    print("Hello from the pygame community")
"""


def test_other_packages_are_imported_without_their_noise_and_nothing_stays_changed(tmp_path):
    (tmp_path / "noisy_package.py").write_text(NOISY)
    program = (
        "import os, warnings; from factorax._lazy import import_quietly; before = list(warnings.filters); "
        "import_quietly('noisy_package'); assert warnings.filters == before; "
        "assert 'PYGAME_HIDE_SUPPORT_PROMPT' not in os.environ"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCE.parent)])}
    environment.pop("PYGAME_HIDE_SUPPORT_PROMPT", None)
    command = [sys.executable, "-W", "error::DeprecationWarning", "-W", "error::UserWarning", "-c"]
    quiet = subprocess.run([*command, program], env=environment, capture_output=True, text=True)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    loud = subprocess.run([*command, "import noisy_package"], env=environment, capture_output=True, text=True)
    assert "DeprecationWarning" in loud.stderr
