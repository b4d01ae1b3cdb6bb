"""The observation of each phase of a light: readings of the lanes with and without green in it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .detectors import OTHERS, Detectors

ELAPSED = 1 / 60
"""Unit of the time in a phase, in seconds."""
SPREAD = 5.0
"""Sums x of readings are transformed to log(1 + 5x): two cars, or twenty seconds of waiting, are 0.7."""


@dataclass(frozen=True, eq=False)
class PhaseView:
    """Conversion of readings of lanes to joint observations, and of these to observations of each phase.

    A phase is described by the cars that it would serve, queued or approaching, in tens; by the readings of its lanes,
    summed over those with protected green (G) and with permissive green (g), and their maximum over lanes; by the sums
    of the current phase, the maximum over all phases and the total of the light; and by whether it is the current
    phase, and the time since green began. These are the competing phases of FRAP (Zheng et al., 2019) as features: one
    network scores each phase, so that lights may have any lanes and phases.
    """

    protected: np.ndarray
    """Fractions of links with G among those of each lane, ``(n, phases, lanes)``."""
    permissive: np.ndarray
    """Fractions of links with g, ``(n, phases, lanes)``."""
    n_features: int
    """Number of readings per lane."""

    @classmethod
    def of(cls, detectors: Detectors) -> "PhaseView":
        """Return the view of a network's lights."""
        lights = detectors.roads.lights
        shape = len(lights), max(len(light.greens) for light in lights), detectors.n_lanes
        protected, permissive = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        for i, light in enumerate(lights):
            for p, state in enumerate(light.greens):
                for j, links in enumerate(detectors.columns[i]):
                    for link in links:
                        if state[link.index] == "G":
                            protected[i, p, j] += 1 / len(links)
                        elif state[link.index] == "g":
                            permissive[i, p, j] += 1 / len(links)
        return cls(protected, permissive, detectors.n_features)

    @cached_property
    def served(self) -> np.ndarray:
        """Which lanes have green in each phase, ones and zeros ``(n, phases, lanes)``."""
        return (self.protected + self.permissive > 0).astype(np.float32)

    @cached_property
    def _served_by_lane(self) -> np.ndarray:
        """The same for lanes first, ``(lanes, 1, n, phases, 1)``."""
        return np.ascontiguousarray(self.served.transpose(2, 0, 1)[:, None, :, :, None])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of lights, largest number of phases, largest number of lanes."""
        n, phases, lanes = self.protected.shape
        return n, phases, lanes

    @cached_property
    def _lights(self) -> np.ndarray:
        return np.arange(self.shape[0])

    @property
    def width(self) -> int:
        """Number of entries of the observation per light."""
        _, phases, lanes = self.shape
        return lanes * self.n_features + phases + 1

    @property
    def n_inputs(self) -> int:
        """Number of entries of a joint observation."""
        return self.shape[0] * self.width

    @property
    def n_seen(self) -> int:
        """Number of features of each phase in a local observation."""
        return 6 * self.n_features + 4

    def observation(self, readings: np.ndarray, phase: np.ndarray, elapsed: np.ndarray) -> np.ndarray:
        """Return the joint observation from readings ``(n, lanes, features)``, phases ``(n,)`` and seconds in them."""
        n, _, lanes = self.shape
        rows = np.zeros((n, self.width), np.float32)
        rows[:, : lanes * self.n_features] = readings.reshape(n, -1)
        rows[self._lights, lanes * self.n_features + phase] = 1.0
        rows[:, -1] = elapsed * ELAPSED
        return rows.ravel()

    def __call__(self, obs: Any) -> Any:
        """Return local observations ``(..., n, phases · seen)`` from joint observations ``(..., d)`` of NumPy or
        JAX."""
        n, phases, lanes = self.shape
        xp = np if isinstance(obs, np.ndarray) else _jax_numpy()
        lead = obs.shape[:-1]
        if xp is np:
            seen = np.empty((math.prod(lead), n, phases, self.n_seen), np.float32)
            self.choice_writer(seen)(obs)
            return seen.reshape(*lead, n, phases * self.n_seen)
        rows = obs.reshape(*lead, n, self.width)
        readings = rows[..., : lanes * self.n_features].reshape(*lead, n, lanes, self.n_features)
        current = rows[..., lanes * self.n_features : -1]
        elapsed = rows[..., -1:]
        strong, weak = xp.matmul(self.protected, readings), xp.matmul(self.permissive, readings)  # (..., n, p, f)
        now = xp.matmul(current[..., None, :], strong)
        shape = strong.shape
        most, total = strong.max(axis=-2, keepdims=True), readings.sum(axis=-2)[..., None, :]
        seconds = xp.broadcast_to(elapsed[..., None, :], (*shape[:-1], 1))
        is_current = current[..., None]
        wide = [xp.broadcast_to(part, shape) for part in (now, most, total)]
        longest = (self.served[..., None] * readings[..., None, :, :]).max(axis=-2)
        sums = xp.log1p(
            SPREAD * xp.concatenate([strong, weak, longest, *wide], axis=-1)
        )  # a jam should not count like a hundred queues
        present = xp.matmul(self.served, readings[..., :-OTHERS]).sum(axis=-1, keepdims=True)
        features = xp.concatenate([present, sums, is_current, is_current * seconds, seconds], axis=-1)
        return features.reshape(*lead, n, phases * self.n_seen)

    def choice_writer(self, out: np.ndarray) -> Callable[[np.ndarray], None]:
        """Return a function that writes the local observations of rows ``(B, d)`` to `out`, ``(B, n, phases, seen)``.

        Workers call it at every decision, so it makes as few calls of NumPy as possible.
        """
        f, (n, phases, lanes), width = self.n_features, self.shape, self.width
        longest, now, most, total = (out[..., 1 + i * f : 1 + (i + 1) * f] for i in range(2, 6))
        strong_and_weak = out[..., 1 : 1 + 2 * f].reshape(-1, n, phases, 2, f).swapaxes(2, 3)
        sums, present = out[..., 1 : 1 + 6 * f], out[..., 0]
        is_current, seconds_if_current, seconds = (out[..., i] for i in (-3, -2, -1))
        # One product for the sums over lanes with protected green, permissive green, any green, and over all lanes.
        weights = np.concatenate([self.protected, self.permissive, self.served, np.ones((n, 1, lanes))], axis=1)
        weights, of_lanes = weights.astype(np.float32), self._served_by_lane
        summed = np.empty((len(out), n, 3 * phases + 1, f), np.float32)
        by_green, strong = summed[:, :, : 2 * phases].reshape(-1, n, 2, phases, f), summed[:, :, :phases]
        served, of_all = summed[:, :, 2 * phases : -1, :-OTHERS], summed[:, :, -1:]
        largest, add, product = np.maximum.reduce, np.add.reduce, np.matmul

        def write(obs: np.ndarray) -> None:
            rows = obs.reshape(-1, n, width)
            readings = rows[..., : lanes * f].reshape(-1, n, lanes, f)
            current, elapsed = rows[..., lanes * f : -1], rows[..., -1:]
            product(weights, readings, out=summed)
            strong_and_weak[...] = by_green
            # NumPy reduces the first axis of an array several times as fast as one in the middle, in the same order.
            largest(of_lanes * readings.transpose(2, 0, 1, 3)[..., None, :], 0, out=longest)
            now[...] = add(current[..., None] * strong, 2, keepdims=True)
            most[...] = largest(strong, 2, keepdims=True)
            total[...] = of_all
            np.multiply(sums, SPREAD, out=sums)
            np.log1p(sums, out=sums)
            add(served, -1, out=present)
            is_current[...] = current
            np.multiply(current, elapsed, out=seconds_if_current)
            seconds[...] = elapsed

        return write


def _jax_numpy() -> Any:
    import jax.numpy as jnp

    return jnp
