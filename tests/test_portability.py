"""Every module imports where POSIX modules are missing, as on Windows, and without private modules of JAX."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import factorax

SOURCE = Path(factorax.__file__).parent
POSIX_ONLY = ("fcntl", "resource")
EXTRAS = (
    *("ev2gym", "libsumo", "mo_gymnasium", "mpe2", "pettingzoo", "pyRDDLGym", "ray", "rddlrepository"),
    *("stable_baselines3", "sumo", "tensorboardX", "torch", "traci"),
)
WITHOUT_THEM = f"""
import sys

class Missing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {POSIX_ONLY + EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing)
"""
"""Hides these modules from imports. An entry of None in `sys.modules` would not do: SciPy looks up `torch` there."""
PRIVATE = ("jax._src", "jax.core", "jax.interpreters", "jax.lib", "jaxlib")


def module_name(path):
    return ".".join(("factorax", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


MODULES = sorted(module_name(path) for path in SOURCE.rglob("*.py") if path.name != "__main__.py")
PACKAGES = sorted(module_name(path) for path in SOURCE.rglob("__init__.py"))


@pytest.fixture(scope="module")
def import_errors():
    """The errors of importing every module of factorax without POSIX modules and without extras, by module."""
    program = f"""
{WITHOUT_THEM}
import importlib, json, traceback
errors = {{}}
for name in {MODULES!r}:
    try:
        importlib.import_module(name)
    except Exception:
        errors[name] = traceback.format_exc()
print(json.dumps(errors))
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_imports_without_posix_modules_and_extras(package, import_errors):
    modules = [name for name in MODULES if name == package or name.rpartition(".")[0] == package]
    assert {name: import_errors[name] for name in modules if name in import_errors} == {}


@pytest.mark.parametrize("name", POSIX_ONLY + EXTRAS)
def test_the_modules_left_out_cannot_be_imported(name):
    exec(WITHOUT_THEM, namespace := {})
    finder = namespace["Missing"]
    sys.meta_path.remove(finder)
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}'"):
        finder.find_spec(name)
    assert finder.find_spec("json") is None


def imported(statements):
    """Modules that are imported when these statements are run; not those of functions that they define."""
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imported(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from imported(ast.iter_child_nodes(node))


def is_private(module):
    return any(module == name or module.startswith(f"{name}.") for name in PRIVATE)


def test_no_private_module_of_jax_is_imported():
    private_imports = {}
    for path in SOURCE.rglob("*.py"):
        statements = ast.parse(path.read_text(encoding="utf-8")).body
        if names := [name for name in imported(statements) if is_private(name)]:
            private_imports[str(path.relative_to(SOURCE))] = names
    assert private_imports == {}


@pytest.mark.parametrize(
    ("source", "private"),
    [
        ("import jax.core", True),
        ("from jax import core", True),
        ("try:\n    from jax._src import api\nexcept ImportError:\n    pass", True),
        ("class A:\n    from jax.interpreters.partial_eval import dce_jaxpr", True),
        ("def f():\n    import jax.core", False),
        ("import jax.numpy as jnp", False),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from jax import core", False),
    ],
)
def test_what_counts_as_private(source, private):
    assert any(map(is_private, imported(ast.parse(source).body))) == private
