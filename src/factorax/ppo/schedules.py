"""Settings that change during training: functions of the remaining progress, as tables."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

from .._checks import Range

_SCHEDULE_POINTS = 1001


class ScheduledRange(Range):
    """Bounds of a number, or of the values of a function of the progress."""

    def __str__(self) -> str:
        return super().__str__() + ", or a function of the remaining progress"

    def converted(self, value: Any, kind: Any) -> Any:
        """Return the value converted to `kind`, or the schedule of a function."""
        if callable(value):
            return _schedule(value, self)
        return super().converted(value, kind)


class Schedule(tuple[float, ...]):
    """A setting that changes during training: its values at equally spaced points of the remaining progress.

    The remaining progress is 1 at the start of training and 0 at its end, as in Stable-Baselines3. Values are
    interpolated between the points. As a table, a schedule can be part of a compiled program and of a file, whatever
    Python function it was created from.

    >>> halving = Schedule.of(lambda progress: 1e-3 if progress > 0.5 else 5e-4)
    >>> halving
    Schedule(0.001 → 0.0005)
    """

    @classmethod
    def of(cls, function: Callable[[float], float]) -> Self:
        """Create a schedule from a function of the remaining progress in [0, 1]."""
        return cls(float(function(i / (_SCHEDULE_POINTS - 1))) for i in range(_SCHEDULE_POINTS))

    @classmethod
    def read(cls, values: Any) -> Any:
        """Return the schedule stored in a file as a list of numbers; any other value is returned unchanged."""
        numbers_alone = isinstance(values, list) and all(type(value) in (int, float) for value in values)
        # Limited, because a table becomes a constant of the program, and a file may be untrusted.
        return cls(map(float, values)) if numbers_alone and 2 <= len(values) <= 10 * _SCHEDULE_POINTS else values

    def __call__(self, progress: Any) -> Any:
        """Return the value at a progress, which may be a traced JAX scalar."""
        import jax.numpy as jnp  # the command line reads this file without JAX

        return jnp.interp(progress, jnp.linspace(0.0, 1.0, len(self)), jnp.asarray(self))

    def __repr__(self) -> str:
        return f"Schedule({self[-1]:g} → {self[0]:g})"


def _schedule(value: Any, bounds: ScheduledRange) -> Schedule:
    """Return a schedule from a function, with values within the bounds (inclusive, since it may end at a bound)."""
    try:
        schedule = value if isinstance(value, Schedule) else Schedule.of(value)
    except Exception as error:  # raised by the user's function
        raise ValueError(f"the function raised {type(error).__name__}: {error}") from error
    for i, each in enumerate(schedule):
        if not math.isfinite(each) or each not in replace(bounds, open=False):
            raise ValueError(f"it is {each:g} at the remaining progress {i / (len(schedule) - 1):g}")
    return schedule
