"""Tests mirror the tree of the library, and no file is long."""

import ast
from pathlib import Path

import factorax

SOURCE, TESTS = Path(factorax.__file__).parent, Path(__file__).parent
OF_SEVERAL_MODULES = {
    "cli/test_bad_commands.py",
    "cli/test_help.py",
    "cli/test_cli_learning.py",
    "experiments/test_experiments.py",
    "experiments/test_qualitative.py",
    "integrations/test_conformance.py",
    "test_architecture.py",
    "test_bad_calls.py",
    "test_counter_examples.py",
    "test_docs.py",
    "test_docs_concordance.py",
    "test_docs_reference.py",
    "test_docs_site.py",
    "test_fuzz.py",
    "test_mirror.py",
    "test_packaging.py",
    "test_portability.py",
    "test_theorems.py",
}
MAX_LINES = 400
TEST_FILES = {path.relative_to(TESTS).as_posix(): path for path in TESTS.rglob("test_*.py")}


def has_module(path):
    """Whether a test file named ``a/test_b.py`` or ``a/test_b_<topic>.py`` has a module ``a/b`` or ``a/_b``."""
    folder = SOURCE / path.relative_to(TESTS).parent
    modules = {module.stem.lstrip("_") for module in folder.glob("*") if module.suffix in ("", ".py")}
    name = path.stem.removeprefix("test_")
    return any(name == module or name.startswith(f"{module}_") for module in modules - {"init__", "pycache__"})


def test_every_test_file_is_named_after_a_module():
    assert {name for name, path in TEST_FILES.items() if not has_module(path)} == OF_SEVERAL_MODULES


def test_no_test_file_imports_another():
    for name, path in TEST_FILES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom | ast.Import):
                module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                assert not (module or "").rpartition(".")[2].startswith("test_"), f"{name} imports {module}"


def test_no_file_is_long():
    lines = {
        str(path): len(path.read_text(encoding="utf-8").splitlines())
        for folder in (SOURCE, TESTS)
        for path in folder.rglob("*.py")
    }
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}
