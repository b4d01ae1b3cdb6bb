"""Observations of traffic: those of Flow, computed from readings that either simulator provides."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .grid import SPEED_LIMIT, Grid
from .signals import Signals

SEEN = 2
"""Number of observed cars per approach: those nearest to the light."""
MAX_DISTANCE = 300.0
CAR = 5.0
"""Length of a car in metres."""
MANY = 1024
"""Number of lights from which local observations are gathered on a GPU."""


class Readings(NamedTuple):
    """Readings of the detectors in one second, as NumPy or JAX arrays; streets have the indices of the grid."""

    speed: Any
    """Speed of the two cars nearest to the light on each approach, nearest first; 0 if there is none; ``(n, 4, 2)``."""
    distance: Any
    """Their distance from the end of the street, 0 if there is none, ``(n, 4, 2)``."""
    present: Any
    """Whether these cars exist, ``(n, 4, 2)``. Cars inside junctions are not observed."""
    count: Any
    """Number of cars on each street, ``(m,)``, without those inside junctions."""
    total_speed: Any
    """Sum of their speeds, ``(m,)``."""
    cars: Any
    """Number of cars on each street, ``(m,)``, including those inside the junction at its end."""
    delay: Any
    """Sum over those cars of 1 − v/35, ``(m,)``."""
    stopped: Any
    """Number of those cars that stand still, ``(m,)``."""


def observation_size(grid: Grid) -> int:
    """Return the length of a joint observation, 24n + 2m + 3n: 339 for 3×3, 452 for 2×6."""
    return 4 * SEEN * 3 * grid.n_lights + 2 * grid.n_edges + 3 * grid.n_lights


def observe(grid: Grid, readings: Readings, signals: Signals, xp: Any = np, *, dtype: Any = None) -> Any:
    """Return the joint observation, ``(24n + 2m + 3n,)``.

    For each light and approach (west, south, east, north) it has the speeds of two cars divided by 35, then their
    distances divided by 300, then the identities of their streets (0 if there is no car); then density and mean speed
    divided by 35 of each street; then seconds of yellow, direction and yellow of each light.
    """
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
    """Return the local observation of each light, ``(..., n, 42)``, from joint observations ``(..., 24n + 2m + 3n)``.

    It has speeds, distances and identities of its eight cars (1, 1, 0 if there is none), density and mean speed of its
    four approaches, then direction and yellow of itself and of the lights to the north, south, west and east (0 and 1
    if there is none). `by_name` reproduces a defect of Flow, which matters from eleven lights on: cars and streets are
    those of the light at the same position in the alphabetical order of names.
    """
    if obs.shape[-1:] != (observation_size(grid),):
        raise _of_another_grid(obs.shape, observation_size(grid))
    if isinstance(obs, np.ndarray):
        return _gathered_in_numpy(grid, obs, by_name)
    xp = _jax_numpy()
    n, m = grid.n_lights, grid.n_edges
    # A GPU computes a concatenation more slowly, because every number decides from which part it comes.
    if n >= MANY and obs.size < 2**31 and _is_on_one_gpu():
        return _gathered_in_jax(grid, obs, by_name)
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


@dataclass(frozen=True)
class LocalObservations:
    """The function `local_observations` of a grid, which NumPy rollouts can call without allocating memory."""

    grid: Grid
    by_name: bool = False

    def __call__(self, obs: Any) -> Any:
        """Return the local observations ``(..., n, 42)``."""
        return local_observations(self.grid, obs, by_name=self.by_name)

    def writer(self, out: np.ndarray) -> Callable[[np.ndarray], None]:
        """Return a function that writes the local observations of rows ``(..., d)`` to `out`, ``(..., n, 42)``.

        Rows have the type of `out`. The function is called in each step of a rollout, where one gather and few
        operations on contiguous memory are several times as fast as thirty operations.
        """
        sources, _, _, outside, instead = (each.T for each in _places(self.grid, self.by_name))
        n = self.grid.n_lights
        # Numbers first, lights last: the numbers that are checked together are then next to each other.
        gathered = np.empty((*out.shape[:-2], 42, n), out.dtype)
        places, missing = np.ascontiguousarray(sources), np.broadcast_to(outside, gathered.shape).copy()
        values = np.broadcast_to(instead, gathered.shape).astype(out.dtype)
        no_speed, no_distance, identities = missing[..., :8, :], missing[..., 8:16, :], gathered[..., 16:24, :]
        by_light, is_zero, put = gathered.swapaxes(-1, -2), np.logical_not, np.putmask
        shape = *out.shape[:-2], observation_size(self.grid)

        def write(obs: np.ndarray) -> None:
            if obs.shape != shape:  # the gather would clip its indices
                raise _of_another_grid(obs.shape, shape[-1])
            obs.take(places, -1, gathered, "clip")
            is_zero(identities, no_speed)
            is_zero(identities, no_distance)
            put(gathered, missing, values)
            out[...] = by_light

        return write


def stop_line_detectors(grid: Grid, obs: Any, reach: float = 15.0) -> Any:
    """Return the observations of lights that have only a detector at each stop line, ``(..., n, 7)``.

    From joint observations: for each approach whether a car is within `reach` metres of the light, then seconds of
    yellow, direction and yellow of the light. The number of waiting and of approaching cars must be remembered or
    guessed.
    """
    n, m = grid.n_lights, grid.n_edges
    cars = obs[..., : 24 * n].reshape(*obs.shape[:-1], 3, n, 4, SEEN)
    near = (cars[..., 2, :, :, 0] != 0) & (cars[..., 1, :, :, 0] * MAX_DISTANCE <= reach)
    signals = obs[..., 24 * n + 2 * m :].reshape(*obs.shape[:-1], 3, n)
    xp = np if isinstance(obs, np.ndarray) else _jax_numpy()
    return xp.concatenate([near.astype(obs.dtype), xp.moveaxis(signals, -2, -1)], axis=-1)


@lru_cache(maxsize=8)
def _places(grid: Grid, by_name: bool) -> tuple[np.ndarray, ...]:
    """Return the indices that assemble local observations from the joint one, each ``(n, 42)``.

    They are: the index of each number; the index of the number that tells whether it is missing, and its value then;
    the mask of numbers that are always missing; and the fill values. A missing car has street 0.
    """
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
    instead[:, :16] = instead[:, 37:] = 1  # speed and distance of a missing car, yellow of a missing light
    return *(np.concatenate(each, axis=1) for each in (parts, told_by)), if_this, outside, instead


def _of_another_grid(shape: tuple[int, ...], size: int) -> ValueError:
    return ValueError(f"obs: got shape {shape}, want (..., {size}), the joint observations of this grid")


def _gathered_in_numpy(grid: Grid, obs: np.ndarray, by_name: bool) -> np.ndarray:
    """Return local observations as one gather of NumPy, corrected where cars or neighbours are missing."""
    places, _, _, outside, instead = _places(grid, by_name)
    local = obs.take(places, -1, mode="clip")
    missing = local[..., 16:24] == 0
    for speed_or_distance in (local[..., :8], local[..., 8:16]):
        np.copyto(speed_or_distance, 1, where=missing)
    np.copyto(local, instead.astype(obs.dtype), where=outside)
    return local


def _gathered_in_jax(grid: Grid, obs: Any, by_name: bool) -> Any:
    """Return local observations as two gathers of JAX; −1 marks numbers that are missing, and those always present."""
    xp = _jax_numpy()
    places, told_by, if_this, outside, instead = _places(grid, by_name)
    places = np.where(outside, -1, places).astype(np.int32)
    told_by = np.where(np.isnan(if_this), -1, told_by).astype(np.int32)
    # All observations as one row: XLA would transpose the result of a gather from several.
    first = xp.arange(math.prod(obs.shape[:-1]), dtype=np.int32).reshape(*obs.shape[:-1], 1, 1) * obs.shape[-1]
    row = obs.reshape(-1)
    value, told = (row.at[first + np.maximum(each, 0)].get(mode="promise_in_bounds") for each in (places, told_by))
    missing = (places < 0) | ((told_by >= 0) & (told == 0))
    return xp.where(missing, instead[0].astype(obs.dtype), value)


def _is_on_one_gpu() -> bool:
    import jax

    return jax.default_backend() == "gpu" and jax.local_device_count() == 1


def _jax_numpy() -> Any:
    import jax.numpy as jnp

    return jnp
