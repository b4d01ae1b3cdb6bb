"""Checks of the command line before the command starts, with one-line error messages.

The options of a command are the parameters of its function. Their types define the allowed values, as for `Config`; the
markers in this module add what a type cannot express.
"""

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from .._checks import Range, checked, described, did_you_mean, nearest, shown
from ..learning.config import NOT_HERE, SYNONYMS, Config
from .flags import kind_of

Seed = Annotated[int, Range(0, 2**32 - 1)]
Count = Annotated[int, Range(1, 1_000_000)]


@dataclass(frozen=True)
class OutputFile:
    """Marks an output file: its folder must exist, and its name must have one of these suffixes."""

    suffixes: tuple[str, ...]

    @property
    def words(self) -> str:
        """A description of the file for messages."""
        return f"a file whose name ends in {_alternatives(self.suffixes)}"

    def check(self, name: str, text: str) -> None:
        """Raise ValueError if the path cannot be written as such a file."""
        path = Path(text)
        if not text or path.suffix.lower() not in self.suffixes:
            raise ValueError(f"{name}: got {shown(text)}, want {self.words}")
        if path.is_dir():
            raise ValueError(f"{name}: got {shown(text)}, which is a folder; want a file")
        if not path.parent.is_dir():
            raise ValueError(f"{name}: got {shown(text)}, but there is no folder {shown(str(path.parent))}; create it")
        _check_writable(name, text, path.parent)


@dataclass(frozen=True)
class OutputFolder:
    """Marks an output folder, which is created if missing."""

    words: str = "a folder"

    def check(self, name: str, text: str) -> None:
        """Raise ValueError if the path cannot be created as a folder."""
        if not text:
            raise ValueError(f"{name}: got '', want a folder")
        path = Path(text)
        existing = next(each for each in (path, *path.absolute().parents) if os.path.lexists(each))
        if not existing.is_dir():
            raise ValueError(f"{name}: got {shown(text)}, but {shown(str(existing))} is not a folder; want a folder")
        _check_writable(name, text, existing)


@dataclass(frozen=True)
class RunFolder:
    """Marks the folder of a run; some arguments also accept the name of a traffic-light controller."""

    or_controller: bool = False

    def check(self, name: str, text: str) -> None:
        """Raise ValueError if the path is not a run, and suggest the nearest controller."""
        if text and (Path(text) / "config.json").exists():
            return
        names: Sequence[str] = ()
        if self.or_controller:
            from ..plugins import controller_names

            names = controller_names()
        if text not in names:
            or_names = f", or one of {', '.join(names)}" if names else ""
            got = f"{text}: no config.json" if text else "got ''"
            raise ValueError(f"{name}: {got}; want the folder of a run{or_names}{did_you_mean(text, names)}")


@dataclass(frozen=True)
class Only:
    """Marks an option that has an effect only with certain values of another option."""

    other: str
    values: tuple[str, ...]
    default: str = ""
    """Default value of the other option."""

    def check(self, name: str, text: str, other: str) -> None:
        """Raise ValueError if the other option has any other value."""
        if other not in self.values:
            raise ValueError(
                f"{name}: got {shown(text)} with --{self.other} {other}, where it has no effect; omit it, or want "
                f"--{self.other} {_alternatives(self.values)}"
            )


@dataclass(frozen=True)
class Not:
    """Marks an option that has no effect together with a flag."""

    switch: str

    def check(self, name: str, text: str) -> None:
        """Raise ValueError, because both were given."""
        raise ValueError(
            f"{name}: got {shown(text)} together with --{self.switch}, where it has no effect; want only one of them"
        )


@dataclass(frozen=True)
class Option:
    """An option or a positional argument of a command."""

    parameter: str
    """Name of the parameter in Python and in messages."""
    kind: Any
    default: Any
    markers: tuple[Any, ...] = ()
    is_positional: bool = False
    is_setting: bool = False

    @property
    def flag(self) -> str:
        """The option as typed; a flag that is on by default can only be turned off."""
        name = self.parameter.replace("_", "-")
        return f"--no-{name}" if self.kind is bool and self.default is True else f"--{name}"

    @property
    def is_sequence(self) -> bool:
        """Whether the option takes any number of values."""
        return get_origin(self.kind) is tuple

    def check(self, texts: Sequence[str]) -> None:
        """Raise ValueError if the option does not accept these values."""
        optional = get_origin(self.kind) in (UnionType, Union)
        if optional and texts == ["None"]:
            return
        values = tuple(map(kind_of(self.kind).read, texts))
        checked(self.parameter, values if self.is_sequence else values[0], self.kind, SYNONYMS.get(self.parameter))
        if self.is_setting:
            return
        for marker in self.markers:
            for text in texts if isinstance(marker, OutputFile | OutputFolder | RunFolder) else ():
                try:
                    marker.check(self.parameter, text)
                except OSError as error:  # such as a name that is too long
                    raise ValueError(f"{self.parameter}: got {shown(text)} ({error.strerror}), want a path") from None
        if "" in texts and (self.is_positional or self.default != ""):
            raise ValueError(f"{self.parameter}: got '', want a non-empty value")
        if self.is_sequence:
            paths = [os.path.realpath(text) for text in texts]
            for text, path in zip(texts, paths, strict=True):
                if paths.count(path) > 1:
                    raise ValueError(f"{self.parameter}: got {shown(text)} twice, want it once")


def options_of(command: Callable[..., Any]) -> list[Option]:
    """Return the options and positional arguments of a command, with one option per setting."""
    function = command.func if isinstance(command, partial) else command
    kinds = get_type_hints(function, include_extras=True)
    options = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name == "settings":
            fields = get_type_hints(Config, include_extras=True).items()
            options += [Option(each, kind, getattr(parameter.default, each), is_setting=True) for each, kind in fields]
            continue
        kind, markers = _bare(kinds[name])
        is_positional = parameter.kind is parameter.POSITIONAL_ONLY
        options.append(Option(name.rstrip("_"), kind, parameter.default, markers, is_positional))
    return options


def check_arguments(arguments: Sequence[str], commands: Mapping[str, Callable[..., Any]]) -> None:
    """Raise ValueError for the first mistake in a command line, unless it asks for help."""
    if any(each in ("-h", "--help") or each.startswith("--tyro-") for each in arguments):
        return
    if not arguments:
        raise ValueError(f"command: got none, want one of {', '.join(commands)}; see factorax --help")
    name, *rest = arguments
    if name not in commands:
        hint = did_you_mean(name, commands)
        raise ValueError(f"command: got {shown(name)}, want one of {', '.join(commands)}{hint}")
    options = options_of(commands[name])
    values = _split(name, rest, options)
    for option in options:
        if option.parameter in values and option.kind is not bool:
            option.check(values[option.parameter])
    for option in options:
        _check_together(option, values)


def _split(command: str, arguments: Sequence[str], options: Sequence[Option]) -> dict[str, list[str]]:
    """Return the values of each option and positional argument on the command line, by parameter name."""
    flags = {option.flag: option for option in options if not option.is_positional}
    positional = next((option for option in options if option.is_positional), None)
    values: dict[str, list[str]] = {}
    free: list[str] = []
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        if not _is_flag(argument):
            free.append(argument)
            continue
        typed, equals, text = argument.partition("=")
        option = flags.get(typed.replace("_", "-"))
        if option is None:
            raise ValueError(_unknown(command, typed, flags))
        if option.parameter in values:
            raise ValueError(f"{option.parameter}: got {option.flag} twice, want it once")
        texts = [text] if equals else []
        if option.kind is bool:
            if equals:
                raise ValueError(f"{option.parameter}: got {shown(text)}, want {option.flag} without a value")
        elif option.is_sequence:
            while not equals and waiting and not _is_flag(waiting[0]):
                texts.append(waiting.pop(0))
            if not texts and not option.is_setting:
                raise ValueError(f"{option.parameter}: got {option.flag} without a value, want one or more")
        elif not equals:
            if not waiting or _is_flag(waiting[0]):
                raise ValueError(f"{option.parameter}: got {option.flag} without a value, want {_wanted(option)}")
            texts.append(waiting.pop(0))
        values[option.parameter] = texts
    if positional is None or not positional.is_sequence:
        _check_count(command, free, positional)
    if positional is not None and free:
        values[positional.parameter] = free
    return values


def _check_count(command: str, texts: Sequence[str], positional: Option | None) -> None:
    """Raise ValueError unless there is one positional argument, or none if it is optional."""
    most = 0 if positional is None else 1
    if len(texts) > most:
        name = "arguments" if positional is None else positional.parameter
        want = "none" if positional is None else "one"
        raise ValueError(f"{name}: got {shown(' '.join(texts))}, want {want}; see factorax {command} --help")
    if positional is not None and not texts and positional.default is inspect.Parameter.empty:
        raise ValueError(f"{positional.parameter}: got none, want one; see factorax {command} --help")


def _check_together(option: Option, values: Mapping[str, Sequence[str]]) -> None:
    """Raise ValueError for an option that has no effect because of another option."""
    if option.parameter not in values:
        return
    text = " ".join(values[option.parameter]) or option.flag
    for marker in option.markers:
        if isinstance(marker, Only):
            marker.check(option.parameter, text, " ".join(values.get(marker.other, [marker.default])))
        if isinstance(marker, Not) and marker.switch in values:
            marker.check(option.parameter, text)


def _alternatives(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def _is_flag(argument: str) -> bool:
    """Return whether the argument is an option rather than a value such as −1 or −inf."""
    return re.match("--?[a-zA-Z]", argument) is not None and argument.lower() not in ("-inf", "-nan", "-infinity")


def _unknown(command: str, typed: str, flags: Mapping[str, Option]) -> str:
    word = typed.replace("_", "-")
    opposite = f"--{word[5:]}" if word.startswith("--no-") else f"--no-{word[2:]}"
    if opposite in flags:
        state = "off" if word.startswith("--no-") else "on"
        return f"{typed}: is already {state} by default in factorax {command}; omit it, or want {opposite}"
    instead = NOT_HERE.get(word[2:].replace("-", "_"))
    if instead is not None and any(option.is_setting for option in flags.values()):
        return f"{typed}: got an option that factorax {command} does not have; use {instead}"
    # without dashes, which would make all flags look similar
    close = nearest(word.lstrip("-"), [flag.lstrip("-") for flag in flags])
    hint = f"did you mean --{close}?" if close else f"see factorax {command} --help"
    return f"{typed}: got an option that factorax {command} does not have; {hint}"


def _wanted(option: Option) -> str:
    """Return the allowed values of an option in words."""
    files = [marker.words for marker in option.markers if isinstance(marker, OutputFile | OutputFolder)]
    return files[0] if files else described(option.kind)


def _bare(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type that `checked` supports, with paths as strings, and the markers of the original type."""
    markers: tuple[Any, ...] = ()
    if get_origin(kind) is Annotated:
        kind, *found = get_args(kind)
        markers = tuple(found)
    if get_origin(kind) is tuple:
        return tuple[str, ...], markers
    is_optional = get_origin(kind) in (UnionType, Union)
    inner = get_args(kind)[0] if is_optional else kind
    bounds = next((marker for marker in markers if isinstance(marker, Range)), None)
    inner = str if inner is Path else inner if bounds is None else Annotated[inner, bounds]
    return (Union[inner, None] if is_optional else inner), markers  # noqa: UP007 (not a class)


def _check_writable(name: str, text: str, folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"{name}: got {shown(text)}, but {shown(str(folder))} is not writable; want another folder")
