"""Reference controllers: from a joint observation and the time to what is asked of the lights, in either simulator."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .grid import Grid
from .observations import MAX_DISTANCE

Controller = Callable[[Any, Any], Any]
"""From observations ``(..., d)`` of NumPy or JAX and the number of the step, from 0, to booleans ``(..., n)``."""


def every(grid: Grid, seconds: int) -> Controller:
    """All lights are asked to switch in steps k, 2k, 3k, …, counted from 1; with ``seconds=1`` as often as they can.

    These are fixed times: ``every(grid, 31)`` shows 28 seconds of green and 3 of yellow.
    """
    if seconds < 1:
        raise ValueError(f"seconds: got {seconds}, want at least 1")

    return lambda obs, t: np.ones(grid.n_lights, bool) & ((t + 1) % seconds == 0)


def always(grid: Grid) -> Controller:
    """Switch as often as possible: a second of green, three of yellow."""
    return every(grid, 1)


def never(grid: Grid) -> Controller:
    """Ask for nothing: north–south stays green, or SUMO's own programme goes on."""
    return lambda obs, t: np.zeros(grid.n_lights, bool)


def gap_out(grid: Grid, *, wait: float = 135.0, clear: float = 90.0) -> Controller:
    """Switch if a car is on its way to the red light, nearer than `wait` metres, and none within `clear` of the green.

    >>> from factorax.problems.traffic import Traffic
    >>> gap_out(Grid(3, 3))(np.zeros(Traffic(3, 3).observation_space.shape), 0).any()
    np.False_
    """
    n, m = grid.n_lights, grid.n_edges

    def act(obs: Any, t: Any) -> Any:
        cars = obs[..., : 24 * n].reshape(*obs.shape[:-1], 3, n, 4, 2)
        distance, present = cars[..., 1, :, :, 0] * MAX_DISTANCE, cars[..., 2, :, :, 0] > 0
        east_west = obs[..., 25 * n + 2 * m : 26 * n + 2 * m] > 0.5  # its direction, which is green or will be

        def within(metres: float, approaches: tuple[int, int]) -> Any:
            return (present & (distance < metres))[..., approaches].any(axis=-1)

        across, along = (0, 2), (1, 3)
        switch_to_ns = within(wait, along) & ~within(clear, across)
        switch_to_ew = within(wait, across) & ~within(clear, along)
        return (east_west & switch_to_ns) | (~east_west & switch_to_ew)

    return act


CONTROLLERS: dict[str, Callable[[Grid], Controller]] = {
    "always": always,
    "never": never,
    "every-10": lambda grid: every(grid, 10),
    "every-20": lambda grid: every(grid, 20),
    "fixed-time": lambda grid: every(grid, 31),
    "gap-out": gap_out,
}
