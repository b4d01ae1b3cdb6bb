"""The traffic lights: green in one direction, three seconds of yellow, green in the other. For NumPy and JAX."""

from typing import Any, NamedTuple

import numpy as np

from factorax._checks import Count, checked

SWITCH_TIME = 3
"""Seconds of yellow."""
_SHOWN = ("GrGr", "rGrG"), ("ryry", "yryr")


class Signals(NamedTuple):
    """The state of n lights, integers of shape ``(..., n)``."""

    direction: Any
    """0: north–south is green, or will be after the yellow. 1: east–west."""
    yellow: Any
    """Whether the light is yellow, 0 or 1."""
    since: Any
    """Seconds of yellow so far. It stays at 3 until the next yellow, as in Flow, and does not measure green time."""

    @classmethod
    def start(cls, n: int, xp: Any = np) -> "Signals":
        """Return the initial state: north–south green at all lights."""
        checked("n", n, Count)
        return cls(*(xp.zeros(n, xp.int32) for _ in range(3)))


def switch(signals: Signals, request: Any, xp: Any = np) -> Signals:
    """Return the lights in the next second, given which of them are requested to switch, booleans ``(..., n)``.

    A request starts the yellow, and the direction changes immediately. A yellow light ignores requests, also in the
    second in which it turns green. There is no all-red phase, and no minimum or maximum green time.

    >>> lights, shown = Signals.start(1), []
    >>> for request in (0, 1, 1, 1, 1, 1, 0):
    ...     lights = switch(lights, np.array([bool(request)]))
    ...     shown.append(colours(lights, 0))
    >>> shown
    ['GrGr', 'yryr', 'yryr', 'yryr', 'rGrG', 'ryry', 'ryry']
    """
    begins = request & (signals.yellow == 0)
    since = xp.where(begins, 0, signals.since + signals.yellow)
    return Signals(signals.direction ^ begins, begins | (signals.yellow & (since < SWITCH_TIME)), since)


def green_and_yellow(signals: Signals, axis: Any) -> tuple[Any, Any]:
    """Return whether a light is green, and whether it is yellow, for cars along an axis (0: north–south)."""
    along = signals.direction == axis
    yellow = signals.yellow == 1
    return ~yellow & along, yellow & ~along


def colours(signals: Signals, k: int) -> str:
    """Return the colours of light k to the north, east, south and west, in SUMO's letters."""
    return _SHOWN[signals.yellow[k]][signals.direction[k]]
