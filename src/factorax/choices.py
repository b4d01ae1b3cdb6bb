"""Choices that carry their own settings, written as ``name`` or ``name,key=value,…``, or as an object.

A setting such as `architecture` is a choice between several things, and each of them has settings of its own: the
length of sequences belongs to a GRU, and a number of rounds to attention. Each thing is a subclass of `Choice`, and a
`Menu` has all that a setting may be, by name:

>>> from dataclasses import dataclass
>>> class Cell(Choice):
...     pass
>>> @dataclass(frozen=True)
... class Gru(Cell):
...     sequence_length: Count = 16
>>> @dataclass(frozen=True)
... class Attention(Cell):
...     rounds: Count = 1
>>> menu = Menu("architecture", {"gru": Gru, "attention": Attention})
>>> menu.read("gru,sequence_length=8"), str(menu.read(Gru(8)))
(Gru(sequence_length=8), 'gru,sequence_length=8')
>>> menu.read("gru,rounds=2")
Traceback (most recent call last):
ValueError: architecture: got the setting rounds for gru, want sequence_length; attention has rounds
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from ._checks import Count as Count
from ._checks import checked
from ._text import did_you_mean, shown


class Choice:
    """Base class of what a setting may be: a frozen dataclass, whose fields are checked against their types."""

    name: ClassVar[str] = ""
    """The name on its menu, set by `Menu`; before that, the name of the class."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.name = cls.__name__  # not that of its base class, as which a file would be read

    def __post_init__(self) -> None:
        for name, kind in _field_kinds(type(self)).items():
            if kind is not Any:  # an object that only Python can pass
                object.__setattr__(self, name, checked(name, getattr(self, name), kind))

    def __str__(self) -> str:
        """Return the text from which a `Menu` reads an equal object: settings with their defaults are left out."""
        written = [f"{f.name}={_written(getattr(self, f.name))}" for f in _fields(self) if not _is_default(self, f)]
        return ",".join([self.name, *written])


class Menu:
    """All that a setting may be, by name."""

    def __init__(self, setting: str, kinds: Mapping[str, type[Choice]], synonyms: Mapping[str, str] | None = None):
        """Create a menu.

        - `setting`: the name of the setting, for messages.
        - `synonyms`: names that other libraries use, with ours, to suggest.
        """
        self.setting, self.synonyms = setting, dict(synonyms or {})
        self.kinds: dict[str, Any] = {}
        for name, kind in kinds.items():
            self.register(name, kind)

    def register(self, name: str, kind: type[Choice]) -> None:
        """Add something that the setting may be, a subclass of `Choice` that is a frozen dataclass."""
        if not isinstance(kind, type) or not issubclass(kind, Choice):
            raise TypeError(f"kind: got {shown(kind)}, want a subclass of Choice")
        if self.kinds.get(name, kind).__qualname__ != kind.__qualname__:
            raise ValueError(
                f"name: got {name!r}, which {self.kinds[name].__qualname__} has; want another name for "
                f"{kind.__qualname__}"
            )
        kind.name = name
        self.kinds[name] = kind

    def read(self, value: Any) -> Any:
        """Return what a text describes, or the object itself if it is one of these; raise ValueError otherwise."""
        if isinstance(value, tuple(self.kinds.values())):
            return value
        if not isinstance(value, str):
            raise ValueError(f"{self.setting}: got {shown(value)}, want {self.names()}, or an object of their classes")
        name, *pairs = value.split(",")
        if name not in self.kinds:
            instead = self.synonyms.get(name.lower())
            hint = f"; did you mean {instead!r}?" if instead else did_you_mean(name, self.kinds, quoted=True)
            raise ValueError(f"{self.setting}: got {shown(name)}, want {self.names()}{hint}")
        kind = self.kinds[name]
        settings = {}
        for pair in pairs:
            key, equals, text = pair.partition("=")
            if not equals:
                raise ValueError(f"{self.setting}: got {shown(pair)} in {shown(value)}, want name,key=value,…")
            if key not in _text_kinds(kind):
                raise ValueError(self._unknown(name, key))
            settings[key] = _read(text, _text_kinds(kind)[key])
        try:
            return kind(**settings)
        except ValueError as error:
            raise ValueError(f"{self.setting}: {error}") from None

    def has(self, value: Any) -> bool:
        """Return whether a value is one of these choices, which its text describes, and not of a subclass."""
        return type(value) in self.kinds.values()

    def names(self) -> str:
        """Return the names in words."""
        return _in_words(map(repr, self.kinds), "or")

    def _unknown(self, name: str, key: str) -> str:
        here = list(_text_kinds(self.kinds[name]))
        want = f"want {', '.join(here)}" if here else f"but {name} has no settings"
        others = [other for other, kind in self.kinds.items() if key in _text_kinds(kind)]
        hint = f"; {_in_words(others, 'and')} {'has' if len(others) == 1 else 'have'} {key}" if others else ""
        hint = hint or did_you_mean(key, here)
        return f"{self.setting}: got the setting {key} for {name}, {want}{hint}"


@cache
def _field_kinds(kind: Any) -> dict[str, Any]:
    """Return the type of each setting of a choice."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind)} if hasattr(kind, "__dataclass_fields__") else {}


def _text_kinds(kind: type[Choice]) -> dict[str, Any]:
    """Return the type of each setting that a text may have: not of objects that only Python can pass."""
    return {name: each for name, each in _field_kinds(kind).items() if each is not Any}


def _in_words(names: Iterable[str], last_link: str) -> str:
    """Return names as in "a, b and c"."""
    *most, last = names
    return f"{', '.join(most)} {last_link} {last}" if most else last


def _fields(choice: Choice) -> Any:
    return fields(choice) if hasattr(choice, "__dataclass_fields__") else ()  # type: ignore[arg-type]


def _is_default(choice: Choice, field: Any) -> bool:
    return getattr(choice, field.name) == field.default


def _written(value: Any) -> str:
    """Return a value as text: entries of a tuple are separated by colons, since commas separate settings."""
    if isinstance(value, tuple):
        return ":".join(map(_written, value))
    return {True: "true", False: "false", None: "none"}.get(value, str(value)) if not _is_number(value) else repr(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _read(text: str, kind: Any) -> Any:
    """Return the value that a text describes, not yet checked against its type."""
    if get_origin(kind) is tuple:
        return tuple(_read(each, get_args(kind)[0]) for each in text.split(":")) if text else ()
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return text
