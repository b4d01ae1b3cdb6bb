"""Checks of arguments against their allowed values: one mechanism for Python, the command line and files.

A type describes the allowed values: ``int``, ``float``, ``bool``, ``str``, a ``Literal`` of choices, ``X | None``,
``tuple[X, ...]``, and ``Annotated[X, Range(...)]`` for numbers within bounds. `checked` converts a value to this type,
or raises ValueError with the argument's name, the value, the allowed values and the nearest choice. The other functions
check what types cannot express: arrays, paths, functions and lists. No check reads the values of arrays that are traced
by JAX.
"""

import math
import numbers
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np

from ._text import nearest, shown


@dataclass(frozen=True)
class Range:
    """Bounds of a number, inclusive unless `open`."""

    low: float = -math.inf
    high: float = math.inf
    open: bool = False
    """Whether `low` is excluded."""

    def __contains__(self, value: float) -> bool:
        return (value > self.low if self.open else value >= self.low) and value <= self.high

    def __str__(self) -> str:
        """Return the bounds in words.

        >>> str(Range(0, open=True)), str(Range(0, 1)), str(Range(1))
        ('above 0', 'from 0 to 1', 'of at least 1')
        """
        low, high = (f"{int(x):,}" if math.isfinite(x) and x == int(x) else f"{x:g}" for x in (self.low, self.high))
        if self.high < math.inf:
            return f"above {low}, up to {high}" if self.open else f"from {low} to {high}"
        return f"above {low}" if self.open else f"of at least {low}"

    def converted(self, value: Any, kind: Any) -> Any:
        """Return the value converted to `kind`; raise ValueError if it is out of bounds."""
        number = _converted(value, kind)
        if number not in self:
            raise ValueError
        return number


Count = Annotated[int, Range(1, 2**31 - 1)]
Whole = Annotated[int, Range(0, 2**31 - 1)]
Seed = Annotated[int, Range(0, 2**32 - 1)]
Positive = Annotated[float, Range(0, open=True)]
NotNegative = Annotated[float, Range(0)]
Share = Annotated[float, Range(0, 1)]


def checked(name: str, value: Any, kind: Any, synonyms: Mapping[str, str] | None = None) -> Any:
    """Return a value converted to the type `kind`; raise ValueError if it is not allowed.

    - `synonyms`: other names that users may know for a choice, with the name to suggest.

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


def check_each(kinds: Mapping[str, Any], /, **values: Any) -> None:
    """Check several arguments, each against the type that `kinds` has under its name."""
    for name, value in values.items():
        checked(name, value, kinds[name])


def described(kind: Any) -> str:
    """Return the allowed values of a type in words.

    >>> described(Annotated[float, Range(0, open=True)] | None)
    'a number above 0, or None'
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return f"{described(arguments[0])} {arguments[1]}"
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
    """Return the value converted to `kind`; a ValueError without message means only that it is not allowed."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return arguments[1].converted(value, arguments[0])
    if origin is Literal:
        if isinstance(value, str) and value in arguments:
            return value
        close = nearest(value, arguments)
        raise ValueError(f"did you mean {close!r}?" if close else "")
    if origin in (UnionType, Union):
        if value is None and type(None) in arguments:
            return None
        # Of alternatives only the first counts: nothing here has two types besides None.
        return _converted(value, next(each for each in arguments if each is not type(None)))
    if origin is tuple:
        # Sets and dictionaries have no order, and characters of a text are hardly ever meant as entries.
        unordered = isinstance(value, Set | Mapping)
        if isinstance(value, str | bytes | bytearray) or unordered or not isinstance(value, Iterable):
            raise ValueError
        return tuple(_converted(each, arguments[0]) for each in value)
    return _scalar(value, kind)


def _scalar(value: Any, kind: type) -> Any:
    is_truth = type(value).__name__ in ("bool", "bool_")  # includes NumPy's booleans
    if kind is bool and is_truth:
        return bool(value)
    if kind is str and isinstance(value, str | os.PathLike):
        return os.fspath(value)
    # Python's booleans are numbers, but hardly ever meant as ones.
    if kind is int and isinstance(value, numbers.Integral) and not is_truth and abs(int(value)) < 2**63:
        return int(value)
    is_array = getattr(value, "shape", None) == () and getattr(value, "dtype", np.dtype(object)).kind in "fiu"
    is_number = (isinstance(value, numbers.Real) or is_array) and not is_truth
    if kind is float and is_number and abs(float(value)) < 1e300:  # JSON can have numbers that a float cannot hold
        return float(value)
    raise ValueError


def is_traced(value: Any) -> bool:
    """Return whether a value is traced by JAX and therefore has no concrete value."""
    # By name, so that JAX is not imported for users of NumPy and PyTorch.
    return "Tracer" in type(value).__name__


def check_number(name: str, value: Any, kind: Any) -> None:
    """Check a number, which may be traced by JAX or be an array with one number per batch entry."""
    # Arrays may be traced by JAX, and then have no value to compare.
    if not hasattr(value, "shape") or isinstance(value, np.generic):
        checked(name, value, kind)


def check_function(name: str, value: Any, want: str) -> None:
    """Raise TypeError if a value is not callable."""
    if not callable(value):
        raise TypeError(f"{name}: got {shown(value)}, want {want}")


def check_type(name: str, value: Any, kind: type | tuple[type, ...], want: str) -> None:
    """Raise TypeError if a value is not an instance of `kind`."""
    if not isinstance(value, kind):
        raise TypeError(f"{name}: got {shown(value)}, want {want}")


def listed(name: str, values: Any, want: str) -> list[Any]:
    """Return the values as a list; raise TypeError for strings and for objects that are not iterable."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"{name}: got {shown(values)}, want {want}")
    return list(values)


def path_of(name: str, value: Any, want: str = "the path of a file") -> Path:
    """Return a non-empty path; raise TypeError or ValueError otherwise."""
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        raise TypeError(f"{name}: got {shown(value)}, want {want}")
    if not os.fspath(value) or "\0" in os.fspath(value):
        raise ValueError(f"{name}: got {shown(value)}, want {want}")
    return Path(value)


def check_options(options: Iterable[str], known: Iterable[str], of: str) -> None:
    """Raise TypeError at the first unknown option, and suggest the nearest known one."""
    known = list(known)
    for name in options:
        if name not in known:
            close = nearest(name, known)
            hint = f"did you mean {close}?" if close else f"want one of {', '.join(known)}"
            raise TypeError(f"{name}: no such option of {of}; {hint}")


def real_array(name: str, value: Any, xp: Any = np, *, finite: bool = True) -> Any:
    """Return an array of real numbers in the namespace `xp`. Entries must be finite unless they are traced by JAX.

    >>> real_array("psi", [1.0, float("nan")])
    Traceback (most recent call last):
    ValueError: psi: got nan at index 1, want finite numbers
    >>> real_array("psi", [1j])
    Traceback (most recent call last):
    TypeError: psi: got [1j], want real numbers
    """
    try:
        is_array = hasattr(value, "dtype") and hasattr(value, "shape") and xp is not np
        array = value if is_array or is_traced(value) else np.asarray(value)
        kind = getattr(array.dtype, "kind", "O")
    except (TypeError, ValueError):
        raise TypeError(f"{name}: got {shown(value)}, want an array of numbers with rows of equal length") from None
    if kind in "cOSUMmT" or value is None:
        of = f" of {array.dtype}, shape {array.shape}" if hasattr(value, "dtype") else ""
        raise TypeError(f"{name}: got {f'an array{of}' if of else shown(value)}, want real numbers")
    if finite and not is_traced(array) and kind in "fV":
        check_finite(name, array)
    if isinstance(array, np.ndarray) and xp.__name__ == "jax.numpy":
        import jax

        return jax.device_put(array)  # `jnp.asarray` would compile a program for every shape
    return array if xp is np else xp.asarray(array)


def check_finite(name: str, array: Any) -> None:
    """Raise ValueError at the first non-finite entry."""
    values = np.asarray(array, np.float64)
    if not np.isfinite(values).all():
        where = tuple(np.argwhere(~np.isfinite(values))[0].tolist())
        at = f" at index {', '.join(map(str, where))}" if where else ""
        raise ValueError(f"{name}: got {values[where]:g}{at}, want finite numbers")


def check_different(argument: str, names: Sequence[str]) -> None:
    """Raise ValueError if a name occurs twice."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{argument}: got {twice[0]!r} more than once, want each once")
