"""What is seen of the traffic: Flow's observations, from readings that either simulator can make."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .grid import SPEED_LIMIT, Grid
from .signals import Signals

SEEN = 2
"""Number of cars per approach that are observed: those nearest to the light."""
MAX_DISTANCE = 300.0
CAR = 5.0
"""Length of a car in metres."""


class Readings(NamedTuple):
    """What detectors in the streets read in one second, arrays of NumPy or JAX; streets have the grid's numbers."""

    speed: Any
    """Speed of the two cars nearest to the light on every approach, nearest first; 0 if none; ``(n, 4, 2)``."""
    distance: Any
    """How far they are from the end of the street, 0 if there is none, ``(n, 4, 2)``."""
    present: Any
    """Whether there are such cars, ``(n, 4, 2)``. Cars inside junctions are not seen."""
    count: Any
    """Cars on every street, ``(m,)``, without those inside junctions."""
    total_speed: Any
    """Sum of their speeds, ``(m,)``."""
    cars: Any
    """Cars on every street, ``(m,)``, those inside a junction with the street they came from."""
    delay: Any
    """Sum over those cars of 1 − v/35, ``(m,)``."""
    stopped: Any
    """Number of those cars that stand, or nearly so, ``(m,)``."""


def observation_size(grid: Grid) -> int:
    """Return the length of a joint observation, 24n + 2m + 3n: 339 for 3×3, 452 for 2×6."""
    return 4 * SEEN * 3 * grid.n_lights + 2 * grid.n_edges + 3 * grid.n_lights


def observe(grid: Grid, readings: Readings, signals: Signals, xp: Any = np, *, dtype: Any = None) -> Any:
    """Return the joint observation, ``(24n + 2m + 3n,)``: for every light and approach (west, south, east, north) the
    speeds of two cars over 35, then their distances over 300, then the identities of their streets, 0 where there is no
    car; density and mean speed over 35 of every street; seconds of yellow, direction and yellow of every light."""
    kind = readings.speed.dtype
    mean = readings.total_speed / xp.maximum(readings.count, 1)
    parts = (
        readings.speed / SPEED_LIMIT,
        readings.distance / MAX_DISTANCE,
        readings.present * xp.asarray(grid.approach_identities, dtype=kind),
        CAR * readings.count / xp.asarray(grid.lengths, dtype=kind),
        mean / SPEED_LIMIT,
        signals.since,
        signals.direction,
        signals.yellow,
    )
    return xp.concatenate(parts, axis=None, dtype=dtype or kind)


def local_observations(grid: Grid, obs: Any, *, by_name: bool = False) -> Any:
    """Return what every light sees, ``(..., n, 42)``, from joint observations ``(..., 24n + 2m + 3n)``.

    Speeds, distances and identities of its eight cars (1, 1, 0 where there is none), density and mean speed of its four
    approaches, then direction and yellow of itself and of the lights to the north, south, west and east (0 and 1 where
    there is none). `by_name` repeats a defect of Flow, which matters from eleven lights on: cars and streets are those
    of the light at the same place in the alphabetical order of names.
    """
    if isinstance(obs, np.ndarray):  # called in every step of a NumPy rollout: two gathers, not thirty operations
        places, told_by, if_this, outside, instead = _places(grid, by_name)
        missing = (obs.take(told_by, axis=-1) == if_this) | outside
        return np.where(missing, instead, obs.take(places, axis=-1))
    xp = _jax_numpy()
    n, m = grid.n_lights, grid.n_edges
    cars = obs[..., : 24 * n].reshape(*obs.shape[:-1], 3, n, 8)
    speed, distance, identity = cars[..., 0, :, :], cars[..., 1, :, :], cars[..., 2, :, :]
    missing = identity == 0
    speed, distance = xp.where(missing, 1, speed), xp.where(missing, 1, distance)
    streets = obs[..., 24 * n : 24 * n + 2 * m].reshape(*obs.shape[:-1], 2, m)
    density, mean = (streets[..., i, :][..., grid.incoming] for i in range(2))
    parts = [speed, distance, identity, density, mean]
    if by_name:
        parts = [part[..., grid.sorted_by_name, :] for part in parts]
    around = np.concatenate([np.arange(n)[:, None], grid.neighbours], axis=1)
    _, direction, yellow = (obs[..., 24 * n + 2 * m + i * n :][..., :n] for i in range(3))
    parts += [xp.where(around >= 0, direction[..., around], 0), xp.where(around >= 0, yellow[..., around], 1)]
    return xp.concatenate([part.astype(obs.dtype) for part in parts], axis=-1)


def stop_line_detectors(grid: Grid, obs: Any, reach: float = 15.0) -> Any:
    """Return what lights see that have nothing but a detector at each stop line, ``(..., n, 7)``, from joint
    observations.

    For every approach whether a car is within `reach` metres of the light, then seconds of yellow, direction and yellow
    of the light itself. How many cars wait, and which are to come, has to be remembered or guessed.
    """
    n, m = grid.n_lights, grid.n_edges
    cars = obs[..., : 24 * n].reshape(*obs.shape[:-1], 3, n, 4, SEEN)
    near = (cars[..., 2, :, :, 0] != 0) & (cars[..., 1, :, :, 0] * MAX_DISTANCE <= reach)
    own = obs[..., 24 * n + 2 * m :].reshape(*obs.shape[:-1], 3, n)
    xp = np if isinstance(obs, np.ndarray) else _jax_numpy()
    return xp.concatenate([near.astype(obs.dtype), xp.moveaxis(own, -2, -1)], axis=-1)


@lru_cache(maxsize=8)
def _places(grid: Grid, by_name: bool) -> tuple[np.ndarray, ...]:
    """Return the index in the joint observation of each number that a light sees, ``(n, 42)``; index of the number that
    tells that it is missing, and its value then; what is always missing; and the fill value. A missing car has street
    0."""
    n, m = grid.n_lights, grid.n_edges
    cars = np.arange(24 * n).reshape(3, n, 8)
    parts = [*cars, *(24 * n + i * m + grid.incoming for i in range(2))]
    if by_name:
        parts = [part[grid.sorted_by_name] for part in parts]
    around = np.concatenate([np.arange(n)[:, None], grid.neighbours], axis=1)
    parts += [24 * n + 2 * m + i * n + np.maximum(around, 0) for i in (1, 2)]
    told_by = [parts[2]] * 2 + parts[2:]
    if_this, outside = np.full((n, 42), np.nan, np.float32), np.zeros((n, 42), bool)
    if_this[:, :16], outside[:, 32:37], outside[:, 37:] = 0, around < 0, around < 0
    instead = np.zeros((n, 42), np.float32)
    instead[:, :16] = instead[:, 37:] = 1  # speed and distance of no car, yellow of no light
    return *(np.concatenate(each, axis=1) for each in (parts, told_by)), if_this, outside, instead


def _jax_numpy() -> Any:
    import jax.numpy as jnp

    return jnp
