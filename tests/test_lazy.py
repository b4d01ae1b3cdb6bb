"""Names that are imported when they are first used."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import factorax as fx

SOURCE = Path(fx.__file__).parent


def lazy_packages():
    """The packages of factorax with names that are imported on first use."""
    files = [path for path in SOURCE.rglob("__init__.py") if "loaded_when_needed(__name__" in path.read_text("utf-8")]
    return sorted(".".join(("factorax", *path.parent.relative_to(SOURCE).parts)) for path in files)


PACKAGES = lazy_packages()


def test_the_main_packages_are_lazy():
    assert {"factorax", "factorax.learning", "factorax.problems", "factorax.rollouts"} <= set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_completion_shows_every_lazy_name_and_each_can_be_imported(package):
    module = importlib.import_module(package)
    names = dir(module)
    assert set(module._HOMES) <= set(names)
    assert names == sorted(set(names))
    for name in module._HOMES:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'no_such_name'"):
        module.no_such_name  # noqa: B018


def test_completion_shows_what_is_imported_at_once():
    assert {"InfluenceNetwork", "credit", "patterns", "rollouts", "FactoredPPO"} <= set(dir(fx))


def test_importing_the_package_loads_neither_jax_nor_gymnasium():
    code = "import sys, factorax; dir(factorax); print({'jax', 'gymnasium'} & set(sys.modules))"
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
