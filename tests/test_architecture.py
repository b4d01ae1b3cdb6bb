"""The figures of the architecture page agree with the source code, and with the contract of import-linter."""

import ast
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def _load_figures():
    spec = spec_from_file_location("architecture_figures", ROOT / "docs" / "architecture_figures.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


figures = _load_figures()
PAGES = (ROOT / "docs" / "explanation" / f"{name}.md" for name in ("architecture", "extending"))
PAGE = "".join(page.read_text(encoding="utf-8") for page in PAGES)


def _package_order():
    """The layers of the contract "package order", top first, each a set of packages."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings.get("tool", {}).get("importlinter", {}).get("contracts", [])
    orders = [contract["layers"] for contract in contracts if contract["name"] == "package order"]
    assert len(orders) == 1, "pyproject.toml: want one import-linter contract named 'package order'"
    names = (
        layer.replace("|", " ").replace(":", " ").replace("(", " ").replace(")", " ").split() for layer in orders[0]
    )
    return [{name.removeprefix("factorax.") for name in layer} for layer in names]


def test_no_import_points_upward_and_every_package_is_drawn():
    assert set(figures.checked_imports(figures.imports())) == set(figures.ORDER)


def test_an_import_that_points_upward_is_refused(tmp_path):
    (tmp_path / "structure").mkdir()
    (tmp_path / "structure" / "network.py").write_text("def f():\n    from ..learning.config import Config\n")
    (tmp_path / "learning").mkdir()
    (tmp_path / "learning" / "__init__.py").write_text("from . import config\nfrom .._files import write_json\n")
    imports = figures.imports(tmp_path)
    assert imports == {"structure": {"learning"}, "learning": {"_files"}}
    with pytest.raises(ValueError, match="structure imports learning, which is above it"):
        figures.checked_imports(imports)


def test_a_package_that_is_not_drawn_is_refused():
    with pytest.raises(ValueError, match="plugins: not in the figure"):
        figures.checked_imports({"plugins": set()})


def test_the_order_is_that_of_the_contract():
    layers = _package_order()
    level = {name: i for i, layer in enumerate(layers) for name in layer}
    assert set(figures.ORDER) <= set(level)
    assert set(level) - set(figures.ORDER) <= set(figures.HELPERS)
    assert [level[name] for name in figures.ORDER] == sorted(level[name] for name in figures.ORDER)


def test_every_package_has_a_row_in_the_table():
    rows = [line.split("|")[1].strip(" `") for line in PAGE.splitlines() if line.startswith("| `")]
    names = [row.removesuffix("/").removesuffix(".py") for row in rows]
    assert tuple(names[: len(figures.ORDER)]) == figures.ORDER[::-1]


@pytest.mark.parametrize("key", figures.CALLS)
def test_functions_are_in_the_files_that_the_figure_names(key):
    assert figures.find_function(figures.CALLS[key]) is not None, figures.CALLS[key]


# `credit_rollout` is given the function `apply`, in which `Update.samples` calls `credit`; `FactoredPPO` has a method
# that calls `Learner.of`, for `PPO` to override; `Learner.learn_from_traced` adds a metric to `learn_from`.
BY_ANOTHER_NAME = {
    ("credit_rollout", "credit"): "apply",
    ("model", "learner"): "_learner",
    ("update", "learn_from"): "learn_from_traced",
}


@pytest.mark.parametrize("link", figures.LINKS, ids="-".join)
def test_callers_name_what_they_call(link):
    caller, callee = (figures.CALLS[key] for key in link)
    *owners, name = callee.name.split(".")
    name = BY_ANOTHER_NAME.get(link, owners[-1] if name == "__init__" else name)
    body = list(ast.walk(figures.find_function(caller)))
    used = {node.id for node in body if isinstance(node, ast.Name)}
    used |= {node.attr for node in body if isinstance(node, ast.Attribute)}
    assert name in used, f"{caller.name} in {caller.file} does not mention {name}"


def test_figures_are_drawn(tmp_path):
    figures.main(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"packages.svg", "calls.svg"}


def test_files_named_on_the_page_exist():
    """Paths in backticks, such as `learning/ppo.py`, are relative to src/factorax, or to the root."""
    paths = {word for word in PAGE.replace("\n", " ").split("`")[1::2] if "/" in word and word.endswith(".py")}
    missing = [path for path in paths if not any((base / path).exists() for base in (figures.SOURCE, ROOT))]
    assert len(paths) > 10
    assert not missing
