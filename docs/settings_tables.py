"""Write the tables of `reference/settings.md` to `docs/_generated`: all settings, and the messages for bad ones.

`conf.py` runs this file at every build. The bad settings are those of the tests, `tests/learning/bad_settings.py`.
"""

import ast
import importlib.util
import inspect
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any, get_type_hints

from factorax._checks import described
from factorax.learning import Config

HERE = Path(__file__).parent
BAD_SETTINGS = HERE.parent / "tests" / "learning" / "bad_settings.py"


def sentences() -> dict[str, str]:
    """What the source says below every field of `Config`."""
    (tree,) = ast.parse(inspect.getsource(Config)).body
    body = tree.body  # pyright: ignore[reportAttributeAccessIssue]
    meanings = {}
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            meanings[ast.unparse(field.target)] = " ".join(str(text.value.value).split())
    return meanings


def all_settings() -> str:
    """A table of every setting: its name, default, what it may be, and what it means."""
    kinds, meanings = get_type_hints(Config, include_extras=True), sentences()
    rows = ["| setting | default | allowed values | meaning |", "|---|---|---|---|"]
    for field in fields(Config):
        cells = f"`{field.name}`", f"`{field.default!r}`", described(kinds[field.name]), meanings[field.name]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def bad_settings() -> str:
    """A table of settings that are refused, with the message of each."""
    spec: Any = importlib.util.spec_from_file_location("bad_settings", BAD_SETTINGS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows = ["| given | message |", "|---|---|"]
    cases = [settings for settings, _ in module.BAD] + [{name: 1} for name, _ in module.UNKNOWN]
    for settings in cases:
        arguments = ", ".join(f"{name}={_shown(value)}" for name, value in settings.items())
        try:
            Config.of(settings)
        except (ValueError, TypeError) as error:
            message = str(error).replace(repr(module.growing), "<function growing>")
            rows.append(f"| `{arguments}` | {_escaped(message)} |")
    return "\n".join(rows) + "\n"


def _shown(value: Any) -> str:
    return value.__name__ if callable(value) else repr(value)


def _escaped(text: str) -> str:
    for mark in "\\`*_[]<>|$":
        text = text.replace(mark, f"\\{mark}")
    return text


def main() -> None:
    """Write both files."""
    folder = HERE / "_generated"
    folder.mkdir(exist_ok=True)
    (folder / "settings.md").write_text(all_settings(), encoding="utf-8")
    (folder / "bad_settings.md").write_text(bad_settings(), encoding="utf-8")


if __name__ == "__main__":
    main()
