"""Write the table of `reference/settings.md` to `docs/_generated`. `conf.py` runs this file at every build."""

import ast
import inspect
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import get_type_hints

from factorax._checks import described
from factorax.ppo import Config

HERE = Path(__file__).parent


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


def main() -> None:
    """Write the file."""
    folder = HERE / "_generated"
    folder.mkdir(exist_ok=True)
    (folder / "settings.md").write_text(all_settings(), encoding="utf-8")


if __name__ == "__main__":
    main()
