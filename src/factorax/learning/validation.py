"""Checks of settings by the types of their fields: one mechanism for Python, the command line and files.

A field's type says what it may hold: ``int``, ``float``, ``bool``, ``str``, a ``Literal`` of choices, ``X | None``,
``tuple[X, ...]``, and ``Annotated[X, Range(...)]`` for numbers within bounds. `checked` returns the value in that type,
or raises ValueError with the field's name, the value, what is allowed, and the nearest choice.
"""

import math
import numbers
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import UnionType
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin

from ..structure.labels import nearest

_POINTS = 1001
_LARGEST = 1e300  # JSON has numbers that a float cannot hold


@dataclass(frozen=True)
class Range:
    """Bounds of a number, inclusive unless `open`; `scheduled` numbers may also be functions of the progress."""

    low: float = -math.inf
    high: float = math.inf
    open: bool = False
    """Whether `low` itself is excluded."""
    scheduled: bool = False

    def __contains__(self, value: float) -> bool:
        return (value > self.low if self.open else value >= self.low) and value <= self.high

    def __str__(self) -> str:
        """The bounds in words.

        >>> str(Range(0, open=True)), str(Range(0, 1)), str(Range(1))
        ('above 0', 'from 0 to 1', 'of at least 1')
        """
        low, high = (f"{int(x):,}" if math.isfinite(x) and x == int(x) else f"{x:g}" for x in (self.low, self.high))
        if self.high < math.inf:
            return f"above {low}, up to {high}" if self.open else f"from {low} to {high}"
        return f"above {low}" if self.open else f"of at least {low}"


class Schedule(tuple[float, ...]):
    """A setting that changes over training: its values at equally spaced points of the progress that remains.

    The progress that remains is 1 at the start of training and 0 at its end, as in Stable-Baselines3. Between the
    points, values are interpolated. As a table, a schedule can be part of a compiled program and of a file, whatever
    Python function it was made of.

    >>> halving = Schedule.of(lambda progress: 1e-3 if progress > 0.5 else 5e-4)
    >>> halving
    Schedule(0.001 → 0.0005)
    """

    @classmethod
    def of(cls, function: Callable[[float], float]) -> Self:
        """The schedule of a function from the progress that remains, in [0, 1], to a value."""
        return cls(float(function(i / (_POINTS - 1))) for i in range(_POINTS))

    @classmethod
    def read(cls, values: Any) -> Any:
        """The schedule that a file holds as a list of numbers; anything else as it is, to be refused."""
        numbers_alone = isinstance(values, list) and all(type(value) in (int, float) for value in values)
        return cls(map(float, values)) if numbers_alone and 2 <= len(values) <= 10 * _POINTS else values

    def __call__(self, progress: Any) -> Any:
        """The value at a progress, which may be a traced JAX scalar."""
        import jax.numpy as jnp

        return jnp.interp(progress, jnp.linspace(0.0, 1.0, len(self)), jnp.asarray(self))

    def __repr__(self) -> str:
        return f"Schedule({self[-1]:g} → {self[0]:g})"


def checked(name: str, value: Any, kind: Any, synonyms: Mapping[str, str] | None = None) -> Any:
    """Return a value in the type of its field; raise ValueError if it does not belong there.

    - `synonyms`: what users may call a choice, and what it is called here, to be suggested.

    >>> checked("gamma", 1, Annotated[float, Range(0, 1)])
    1.0
    >>> checked("objective", "PPO", Literal["ppo", "a2c"])
    Traceback (most recent call last):
    ValueError: objective: got 'PPO', want 'ppo' or 'a2c'; did you mean 'ppo'?
    """
    try:
        return _converted(value, kind)
    except (ValueError, TypeError, OverflowError) as error:
        reason = f"; {error}" if str(error) else ""
        if isinstance(value, str) and value.lower() in (synonyms or {}):
            reason = f"; did you mean {(synonyms or {})[value.lower()]!r}?"
        raise ValueError(f"{name}: got {shown(value)}, want {described(kind)}{reason}") from None


def shown(value: Any) -> str:
    """A value as part of a message, cut short."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def described(kind: Any) -> str:
    """What a type of the settings allows, in words.

    >>> described(Annotated[float, Range(0, open=True)] | None)
    'a number above 0, or None'
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        inner, bounds = arguments[0], arguments[1]
        function = ", or a function of the remaining progress" if bounds.scheduled else ""
        return f"{described(inner)} {bounds}{function}"
    if origin is Literal:
        *most, last = map(repr, arguments)
        return f"{', '.join(most)} or {last}" if most else last
    if origin in (UnionType, Union):
        kinds = [each for each in arguments if each is not type(None)]
        return " or ".join(map(described, kinds)) + (", or None" if len(kinds) < len(arguments) else "")
    if origin is tuple:
        return f"a sequence, each entry {described(arguments[0])}"
    return {int: "a whole number", float: "a number", bool: "True or False", str: "a text"}.get(kind, str(kind))


def _converted(value: Any, kind: Any) -> Any:
    """The value in the type `kind`; errors without a message say only that it does not belong there."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _within(value, arguments[0], arguments[1])
    if origin is Literal:
        if isinstance(value, str) and value in arguments:
            return value
        close = nearest(value, arguments)
        raise ValueError(f"did you mean {close!r}?" if close else "")
    if origin in (UnionType, Union):
        if value is None and type(None) in arguments:
            return None
        return _converted(value, next(each for each in arguments if each is not type(None)))
    if origin is tuple:
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise ValueError
        return tuple(_converted(each, arguments[0]) for each in value)
    return _SCALARS[kind](value)


def _within(value: Any, kind: Any, bounds: Range) -> Any:
    if bounds.scheduled and (callable(value) or isinstance(value, Schedule)):
        return _schedule(value, bounds)
    number = _converted(value, kind)
    if number not in bounds:
        raise ValueError
    return number


def _schedule(value: Any, bounds: Range) -> Schedule:
    """A schedule from a function; its values are within the bounds, or at them: a range may close at the end."""
    try:
        schedule = value if isinstance(value, Schedule) else Schedule.of(value)
    except Exception as error:  # of the user's function
        raise ValueError(f"the function raised {type(error).__name__}: {error}") from error
    for i, each in enumerate(schedule):
        if not math.isfinite(each) or each not in replace(bounds, open=False):
            raise ValueError(f"it is {each:g} at the remaining progress {i / (len(schedule) - 1):g}")
    return schedule


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or abs(int(value)) >= 2**63:
        raise ValueError
    return int(value)


def _number(value: Any) -> float:
    is_number = isinstance(value, numbers.Real) or (getattr(value, "shape", None) == () and value.dtype.kind in "fiu")
    if isinstance(value, bool) or not is_number or not abs(float(value)) < _LARGEST:
        raise ValueError
    return float(value)


def _truth(value: Any) -> bool:
    if type(value).__name__ not in ("bool", "bool_"):  # NumPy's as well
        raise ValueError
    return bool(value)


def _text(value: Any) -> str:
    if not isinstance(value, str | os.PathLike):
        raise ValueError
    return os.fspath(value)


_SCALARS: dict[Any, Callable[[Any], Any]] = {int: _whole, float: _number, bool: _truth, str: _text}
