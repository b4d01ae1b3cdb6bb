"""Tests are where their code is, and independent of each other."""

import ast
from pathlib import Path

import factorax

SOURCE, TESTS = Path(factorax.__file__).parent, Path(__file__).parent


def test_every_folder_of_tests_has_a_package_of_the_same_name():
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    assert sorted(str(folder) for folder in folders if not (SOURCE / folder / "__init__.py").is_file()) == []


def test_no_test_file_imports_another():
    """Pytest would then import the other one twice, and run its fixtures under two names."""
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom | ast.Import):
                module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                assert not (module or "").rpartition(".")[2].startswith("test_"), f"{path.name} imports {module}"
