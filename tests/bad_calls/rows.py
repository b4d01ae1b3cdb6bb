"""What a row of the tables is: a call that has to be refused, the argument at fault, and what the message must show."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

NAN, INF = math.nan, math.inf
NOT_COUNTS = (0, -1, True, 2.5, NAN, "3", None, 10**23)
"""What is no whole number of at least 1."""
NOT_WHOLE = (-1, True, 1.5, "1", None)
"""What is no whole number of at least 0."""
NOT_SHARES = (-0.1, 1.5, NAN, True, "0.9", None, 1j)
"""What is no number from 0 to 1."""
NOT_SEEDS = (-1, 0.5, "0", 10**23, True)
NOT_FLAGS = ("yes", 1, None)
"""What is neither True nor False, whatever Python makes of it in an ``if``."""


@dataclass(frozen=True)
class Row:
    """A call that must raise, what it covers, and the argument that the message has to begin with."""

    covers: str
    argument: str
    call: Callable[[], Any]
    shows: tuple[str, ...]
    """Texts of which the message has to contain one: the value that was given, or what is wrong with it."""
    arguments: frozenset[str]
    """The arguments of the call that is wrong, as the function calls them."""

    def __str__(self) -> str:
        return f"{self.covers}({self.argument}={self.shows[0]})"


@dataclass(frozen=True)
class Given:
    """A bad value together with what the message says about it, or with the name that the message begins with."""

    value: Any
    shows: str = ""
    head: str = ""


def bad(
    covers: str, function: Callable[..., Any], good: dict[str, Any] | None = None, /, **wrong: Any
) -> Iterator[Row]:
    """A row for each wrong value of each argument; the other arguments are the `good` ones.

    - `function`: what is called with keywords; strings of digits in front, as in ``_0``, stand for positions.
    """
    for argument, values in wrong.items():
        for value in values:
            given = value if isinstance(value, Given) else Given(value)
            arguments = {**(good or {}), argument: given.value}
            shows = (given.shows,) if given.shows else texts_of(given.value)
            yield Row(
                covers, given.head or argument, partial(_called, function, arguments), shows, frozenset({argument})
            )


def _called(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """The call, with arguments made when they are needed if they are marked `Lazy`."""
    return function(**{name: value() if isinstance(value, Lazy) else value for name, value in arguments.items()})


NOT_NETWORKS = (
    None,
    3,
    "chain",
    [],
    object(),
    Given([[2.0]], "2"),
    Given([[NAN]], "NaN"),
    Given([[1, 0], [1]], "lengths"),
    Given([["a"]], "U1"),
    Given([[1j]], "complex"),
)
"""What is no influence network, nor a matrix of one."""


@dataclass(frozen=True)
class Lazy:
    """An argument that takes time to make, and is made when a call needs it."""

    make: Callable[[], Any]

    def __call__(self) -> Any:
        return self.make()


def _is_regular(value: Any) -> bool:
    """Whether a sequence has a shape."""
    try:
        return bool(np.shape(value))
    except ValueError:
        return False


def texts_of(value: Any) -> tuple[str, ...]:
    """How a message may show a value: as Python writes it, cut short, or by its type, shape or length."""
    texts = [" ".join(repr(value).split())[:40], type(value).__name__]
    if isinstance(getattr(value, "shape", None), tuple):
        texts += [str(value.shape), str(getattr(value, "dtype", ""))]
    elif isinstance(value, float):
        texts.append(f"{value:g}")
    elif isinstance(value, list | tuple | dict):
        texts += ["got 0", "empty", "got no"] if not value else [f"got {len(value)}"]
        texts += [str(np.shape(value)), repr(tuple(value))] if _is_regular(value) else [repr(tuple(value))]
    return tuple(texts)
