"""What the options of commands have in common: their help, their groups, their checks."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypedDict, Union, get_args, get_origin, get_type_hints

import docstring_parser
import tyro

from .._checks import Range, checked, shown

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
    options = {} if config is None else _settings_options(config)
    options |= {name: _option(kinds[name], texts.get(name, ""), _hint) for name in own}
    bounded = {name: kinds[name] for name in own if _has_range(kinds[name])}
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


def _settings_options(config: type) -> dict[str, Any]:
    """Return the options of the fields of a dataclass, whose help says their defaults."""
    kinds, texts = get_type_hints(config, include_extras=True), _texts(config)
    options = {}
    for field in fields(config):
        default = field.default
        text = " ".join(map(str, default)) if isinstance(default, tuple) else str(default)
        hint = "" if default is False or not text else f"(default: {text})"
        kind = kinds[field.name]
        options[field.name] = _option(kind if _is_readable(kind) else str, texts[field.name], hint)
    return options


def _option(kind: Any, text: str, hint: Any) -> Any:
    """Return a type with the help of an option: tyro alone would keep the line breaks of a docstring."""
    return Annotated[kind, tyro.conf.arg(help=" ".join(text.split()), help_behavior_hint=hint)]


def _hint(default: str) -> str:
    """Return the end of a help; texts say in words what happens without the option, where that is not a value."""
    return "" if default in ("", "''", "False", "None") else f"(default: {default})"


def _texts(documented: Any) -> dict[str, str]:
    """Return the texts of a docstring, or of the docstrings of a dataclass's fields, by name."""
    return {each.arg_name: each.description or "" for each in docstring_parser.parse_from_object(documented).params}


def _has_range(kind: Any) -> bool:
    return any(isinstance(each, Range) for each in getattr(kind, "__metadata__", ()))


def _is_readable(kind: Any) -> bool:
    """Return whether tyro reads a type; settings that may also be objects are read as texts."""
    if get_origin(kind) is Annotated:
        return _is_readable(get_args(kind)[0])
    if get_origin(kind) in (tuple, Union, UnionType):
        return all(_is_readable(each) for each in get_args(kind) if each is not Ellipsis)
    return kind in (int, float, str, bool, NoneType) or get_origin(kind) is Literal


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
