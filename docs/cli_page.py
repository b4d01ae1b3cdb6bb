"""Write the command-line reference to `docs/_generated/cli.md`, from the parsers of the commands.

`conf.py` runs this file at every build.
"""

import argparse
import re
import warnings
from pathlib import Path
from typing import Any

import tyro

from factorax.cli import commands
from factorax.ppo.config import CHOICES

PAGE = Path(__file__).parent / "_generated" / "cli.md"
_DEFAULT = re.compile(r"\s*\((default: (?P<value>.*)|required)\)$", re.DOTALL)


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of every command."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of get_parser; nothing else of tyro gives an option's help
        return {
            name: tyro.extras.get_parser(function, prog=f"factorax {name}") for name, function in commands().items()
        }


def escape(text: str) -> str:
    """Return text that Markdown shows unchanged, in one line."""
    return re.sub(r"([\\`*_\[\]<>|$])", r"\\\1", " ".join(text.split()))


def row(action: argparse.Action) -> str:
    """Return a row of the table: the option, its meaning, its values and its default."""
    text = str(action.help or "")
    match = _DEFAULT.search(text)
    default = "" if match is None else ("required" if match["value"] is None else f"`{match['value'].strip()}`")
    default = "" if default in ("``", "`None`", "`''`", "`False`") else default.replace("|", "\\|")
    names = "`, `".join(action.option_strings) or positional(action)
    return f"| `{names}` | {escape(_DEFAULT.sub('', text))} *{values(action)}* | {default} |\n"


def positional(action: argparse.Action) -> str:
    """Return the name of a positional argument."""
    return str(action.metavar or action.dest.strip("_").upper())


def values(action: argparse.Action) -> str:
    """Return the values of an option: choices, a type, or nothing if it is a flag."""
    setting = (action.option_strings or [""])[-1].removeprefix("--")
    if setting in CHOICES and not action.choices and "{" not in str(action.metavar):
        return f"[Name, or name,key=value,…](settings.md#choices-{setting})."
    kind = re.sub(r"\{None\}\||\|None$", "", str(action.metavar))
    choices = (
        kind.strip("{}").split(",") if re.fullmatch(r"\{[^}]*\}", kind) else sorted(map(str, action.choices or ()))
    )
    if choices:
        return "One of " + ", ".join(f"`{choice}`" for choice in choices if choice != "None") + "."
    if action.metavar is None:
        return "Flag."
    words = {
        "STR": "Text",
        "INT": "Whole number",
        "FLOAT": "Number",
        "PATH": "Path",
        "FILE": "File",
        "FOLDER": "Folder",
        "RUN": "Folder",
        "PROBLEM": "Name",
        "NAME": "Name",
    }
    words["TEXT"] = "Text"
    several = kind.startswith("[")
    kind = kind.strip("[]").split()[0].strip("[]")
    named = words.get(kind, kind.lower())
    return f"{named}, one or more." if several else f"{named}."


def section(name: str, parser: argparse.ArgumentParser) -> str:
    """Return the section of one command."""
    actions: list[Any] = [action for action in parser._actions if action.dest != "help"]
    names = [positional(action) for action in actions if not action.option_strings]
    rows = "".join(row(action) for action in actions)
    usage = " ".join(["factorax", name, *names, "[options]"])
    description = escape(parser.description or "")
    return (
        f"## {name}\n\n{description}\n\n```bash\n{usage}\n```\n\n| option | meaning | default |\n|---|---|---|\n{rows}"
    )


def main() -> None:
    """Write the page."""
    PAGE.parent.mkdir(exist_ok=True)
    text = "\n".join(section(name, parser) for name, parser in parsers().items())
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
