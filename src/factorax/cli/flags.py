"""The settings as command-line flags: parsed here, and checked by `Config` with the same messages as in Python."""

from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from tyro.constructors import PrimitiveConstructorSpec

from ..learning.config import Config


class Flags(Config):
    """The fields of `Config` as typed on the command line, not yet checked; `config` checks them.

    A text that does not fit a field stays a string, for which `Config` raises its own message.
    """

    def __post_init__(self) -> None:
        """Skip the checks of `Config`."""

    @classmethod
    def from_config(cls, config: Config) -> "Flags":
        """Return the flags for these settings, for use as defaults."""
        return cls(**vars(config))

    @property
    def config(self) -> Config:
        """The checked settings."""
        return Config(**vars(self))


@dataclass(frozen=True)
class Kind:
    """The values that a field accepts, for the help text and for parsing."""

    metavar: str
    is_number: bool = False
    may_be_none: bool = False
    is_sequence: bool = False

    def read(self, text: str) -> Any:
        """Return the text as a number if possible, otherwise the text."""
        if self.may_be_none and text.lower() == "none":
            return None
        for convert in (int, float) if self.is_number else ():
            try:
                return convert(text)
            except ValueError:
                pass
        return text


def kind_of(kind: Any) -> Kind:
    """Return the values that a field of this type accepts."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return kind_of(arguments[0])
    if origin in (UnionType, Union):
        inner = kind_of(arguments[0])
        return Kind(f"{inner.metavar}|None", inner.is_number, may_be_none=True)
    if origin is tuple:
        inner = kind_of(arguments[0])
        return Kind(f"[{inner.metavar} [...]]", inner.is_number, is_sequence=True)
    if origin is Literal:
        return Kind("{" + ",".join(arguments) + "}")
    return Kind({int: "INT", float: "FLOAT"}.get(kind, "TEXT"), is_number=kind in (int, float))


def _flag(kind: Any) -> Any:
    """Return the type of a field with a parser for its text."""
    if kind is bool:
        return kind
    described = kind_of(kind)

    def read(texts: list[str]) -> Any:
        values = tuple(map(described.read, texts))
        return values if described.is_sequence else values[0]

    def written(value: Any) -> list[str]:
        return [str(each) for each in value] if described.is_sequence else [str(value)]

    return Annotated[
        kind,
        PrimitiveConstructorSpec(
            nargs="*" if described.is_sequence else 1,
            metavar=described.metavar,
            instance_from_str=read,
            is_instance=lambda value: True,
            str_from_instance=written,
        ),
    ]


Flags.__annotations__ = {name: _flag(kind) for name, kind in get_type_hints(Config, include_extras=True).items()}
