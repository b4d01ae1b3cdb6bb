"""What the options of commands have in common: their help, their groups, their checks."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, get_origin, get_type_hints

import docstring_parser
import tyro

from .._checks import Range, checked
from .._text import shown

Switch = tyro.conf.FlagCreatePairsOff[bool]
"""A flag that is off by default, without an opposite."""
MAX_PATH = 4096
"""Number of characters of a path that are printed."""


def command(
    function: Callable[..., None], config: Any = None, groups: Mapping[str, Sequence[Any]] | None = None
) -> Callable[..., None]:
    """Return a function for tyro: its options have a help, and its numbers are checked against their `Range`.

    - `config`: a dataclass whose fields are options, too. Those that are on the command line become keyword arguments,
      and no others: they override presets, which are read later.
    - `groups`: the names of options under each title of the help; ``...`` stands for the other fields of `config`.
    """
    kinds, texts = get_type_hints(function, include_extras=True), _texts(function)
    own = {name: each for name, each in signature(function).parameters.items() if each.kind != each.VAR_KEYWORD}
    bounded = {
        name: kinds[name]
        for name in own
        if any(isinstance(each, Range) for each in getattr(kinds[name], "__metadata__", ()))
    }
    hints: dict[str, Any] = dict.fromkeys(own, _hint)
    if config is not None:
        # The parser has no defaults of settings, so the help says them.
        defaults = {field.name: field.default for field in fields(config) if field.name not in own}
        for name, default in defaults.items():
            text = " ".join(map(str, default)) if isinstance(default, tuple) else str(default)
            hints[name] = "" if default is False or not text else f"(default: {text})"
        texts, kinds = _texts(config) | texts, get_type_hints(config, include_extras=True) | kinds
        # A choice that may also be an object is read as a text.
        is_text = {name for name in defaults if isinstance(defaults[name], str) and get_origin(kinds[name]) != Literal}
        kinds |= dict.fromkeys(is_text, str)
    # Tyro alone would keep the line breaks of a docstring.
    options = {
        name: Annotated[kinds[name], tyro.conf.arg(help=texts.get(name, ""), help_behavior_hint=hint)]
        for name, hint in hints.items()
    }
    listed = {name for names in (groups or {}).values() for name in names}
    rest = [name for name in options if name not in listed and name not in own]
    boxes = {
        title: [name for each in names for name in (rest if each is ... else [each]) if name in options]
        for title, names in (groups or {}).items()
    }

    parameters = [each.replace(annotation=options[name]) for name, each in own.items() if name not in listed]
    for i, (title, names) in enumerate(boxes.items()):
        # Of a dictionary that need not be total, tyro leaves out what is not on the command line and has no default.
        box: Any = TypedDict(f"Box{i}", {name: options[name] for name in names}, total=False)  # pyright: ignore
        kind = tyro.conf.OmitArgPrefixes[Annotated[box, tyro.conf.arg(name=title)]]
        defaults = {name: own[name].default for name in names if name in own}
        parameters.append(Parameter(f"box{i}", Parameter.KEYWORD_ONLY, default=defaults, annotation=kind))

    def run(*arguments: Any, **options: Any) -> None:
        for i in range(len(boxes)):
            options |= options.pop(f"box{i}", {})
        for name in bounded.keys() & options.keys():
            if options[name] is not None:
                checked(name, options[name], bounded[name])
        function(*arguments, **options)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    return run


def _hint(default: str) -> str:
    """Return the end of a help; texts say in words what happens without the option, where that is not a value."""
    return "" if default in ("", "''", "False", "None") else f"(default: {default})"


def _texts(documented: Any) -> dict[str, str]:
    """Return the texts of a docstring, or of the docstrings of a dataclass's fields, by name and on one line each."""
    params = docstring_parser.parse_from_object(documented).params
    return {each.arg_name: " ".join((each.description or "").split()) for each in params}


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
