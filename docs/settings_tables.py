"""Write the tables of `reference/settings.md` to `docs/_generated`. `conf.py` runs this file at every build."""

import ast
import inspect
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any, get_type_hints

from factorax._checks import described
from factorax.choices import Choice, _written
from factorax.ppo import Config
from factorax.ppo.config import menus

HERE = Path(__file__).parent


def sentences(kind: type) -> dict[str, str]:
    """Return what the source says below each field of a dataclass and of its base classes."""
    meanings = {}
    for base in reversed(kind.__mro__):
        try:
            (tree,) = ast.parse(inspect.getsource(base)).body
        except (OSError, TypeError):  # built in, or made by `type` as those of devices are
            continue
        for field, text in pairwise(tree.body):  # pyright: ignore[reportAttributeAccessIssue]
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                meanings[ast.unparse(field.target)] = " ".join(str(text.value.value).split())
    return meanings


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def allowed(setting: str, kind: Any) -> str:
    """Return what a setting may be, in words."""
    if setting in menus():
        return f"[a choice](#choices-{setting}): " + ", ".join(f"`{name}`" for name in kinds_of(setting))
    return described(kind)


def kinds_of(setting: str) -> dict[str, type[Choice]]:
    """Return what a setting may be by name, without plug-ins."""
    kinds = menus()[setting].kinds
    return {name: kind for name, kind in kinds.items() if kind.__module__.split(".")[0] == "factorax"}


def all_settings() -> str:
    """Return a table of every setting: its name, default, what it may be, and what it means."""
    kinds, meanings = get_type_hints(Config, include_extras=True), sentences(Config)
    rows = ["| setting | default | allowed values | meaning |", "|---|---|---|---|"]
    for field in fields(Config):
        kind = allowed(field.name, kinds[field.name])
        rows.append(_row(f"`{field.name}`", f"`{field.default!r}`", kind, meanings[field.name]))
    return "\n".join(rows) + "\n"


def all_choices() -> str:
    """Return a section for each setting that is a choice: everything that it may be, with its own settings."""
    parts = []
    for setting in menus():
        lines, names_by_settings = [f"(choices-{setting})=", f"### {setting}", ""], {}
        for name, kind in kinds_of(setting).items():
            about = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].replace("``", "`").split())
            is_generated = about.startswith(f"{kind.__name__}(")  # by `dataclass`, without a docstring
            lines.append(f"- `{name}`" + ("" if is_generated else f": {about}"))
            names_by_settings.setdefault(settings_of(kind), []).append(name)
        for settings, names in names_by_settings.items():
            if settings:
                lines += ["", f"Settings of {', '.join(f'`{name}`' for name in names)}:", "", settings]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def settings_of(kind: type[Choice]) -> str:
    """Return a list of the settings of a choice, with their defaults, or an empty text."""
    if not hasattr(kind, "__dataclass_fields__"):
        return ""
    hints, meanings = get_type_hints(kind, include_extras=True), sentences(kind)
    # `module` is an object that only Python can pass.
    return "\n".join(
        f"- `{f.name}={_written(f.default)}`: {meanings.get(f.name) or described(hints[f.name])}"
        for f in fields(kind)  # pyright: ignore[reportArgumentType]
        if f.name != "module"
    )


def main() -> None:
    """Write the files."""
    folder = HERE / "_generated"
    folder.mkdir(exist_ok=True)
    (folder / "settings.md").write_text(all_settings(), encoding="utf-8")
    (folder / "choices.md").write_text(all_choices(), encoding="utf-8")


if __name__ == "__main__":
    main()
