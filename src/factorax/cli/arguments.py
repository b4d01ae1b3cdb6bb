"""What the options of commands have in common."""

import os
from collections.abc import Callable
from functools import cache, wraps
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import docstring_parser
import tyro

from .._checks import Range, checked
from .._text import shown

Switch = tyro.conf.FlagCreatePairsOff[bool]
"""A flag that is off by default, without an opposite."""
MAX_PATH = 4096
"""Number of characters of a path that are printed."""


@cache
def command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function for tyro: its options have a help, and its numbers are checked against their `Range`."""
    with_help(function)
    kinds = get_type_hints(function, include_extras=True)
    bounded = {name: kind for name, kind in kinds.items() if _range_of(kind)}

    @wraps(function)
    def run(*arguments: Any, **options: Any) -> None:
        for name, value in signature(function).bind(*arguments, **options).arguments.items():
            if name in bounded and value is not None:
                checked(name, value, bounded[name])
        function(*arguments, **options)

    return run


def _range_of(kind: Any) -> Range | None:
    return next((each for each in getattr(kind, "__metadata__", ()) if isinstance(each, Range)), None)


def with_help(described: Any, documented: Any = None) -> Any:
    """Attach the texts of a docstring to the options of a function, or of a class whose base is `documented`.

    Tyro alone would keep their line breaks, and add "(default: None)" to texts that say in words what happens.
    """
    kinds = get_type_hints(described, include_extras=True)
    unsaid = {"", "''", "False"} if documented else {"", "''", "False", "None"}
    for each in docstring_parser.parse_from_object(documented or described).params:
        text = " ".join((each.description or "").split())
        shown = tyro.conf.arg(help=text, help_behavior_hint=lambda x: "" if x in unsaid else f"(default: {x})")
        kinds[each.arg_name] = Annotated[kinds[each.arg_name], shown]
    described.__annotations__ = kinds
    return described


def check_output(name: str, path: Path | None, *suffixes: str) -> None:
    """Raise ValueError unless a file can be written here and its name has one of these suffixes.

    Commands that compute for long check this first.
    """
    if path is None:
        return
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"{name}: got {shown(str(path))}, want a file whose name ends in {' or '.join(suffixes)}")
    if path.is_dir():
        raise ValueError(f"{name}: got {shown(str(path))}, which is a folder; want a file")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ValueError(f"{name}: got {shown(str(path))}, but {shown(str(path.parent))} is not a writable folder")
