"""The detectors of the lane simulator: what lights and streets read from the cars in their slots."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from factorax._xla import separately

from .grid import ENTRY, SPEED_LIMIT
from .lane_state import Lanes, as_one_grid, occupied, shifted
from .observations import Readings

_BITS = {4: 20, 8: 44}
"""Binary places of numbers that are added as integers, by the bytes of a number: sums must stay below 2,048 and 2¹⁹."""


@dataclass(frozen=True, eq=False)
class LaneDetectors:
    """Detectors on all streets of a grid with L routes of up to K lights."""

    streets: np.ndarray
    """Index of each street in a flat ``(K + 1, L)``, ``(m,)``."""
    incoming: np.ndarray
    """Streets that lead to each light, ``(n, 4)``."""
    sections: int
    """K + 1"""
    standstill: float
    """Speed at or below which a car stands."""
    looks_up: bool
    """Whether routes are so long that adding by index is faster than comparing with each section."""

    def read(self, states: Lanes) -> Readings:
        """Return the readings of B grids whose states have the axis of grids last, as have the readings."""
        sums = self._sums(states)
        approach = [each[self.streets[self.incoming]] for each in sums[:5]]  # (n, 4, B)
        present = approach[4][:, :, None] > np.arange(2)[:, None]
        streets = [each[self.streets] for each in sums[4:]]
        return Readings(jnp.stack(approach[:2], axis=2), jnp.stack(approach[2:4], axis=2), present, *streets)

    def _sums(self, states: Lanes) -> list[jax.Array]:
        """Return what detectors add up over the cars of each section, ``((K + 1) L, B)`` each."""
        state = as_one_grid(states)
        has_car, v = occupied(state), state.speed
        on_street = has_car & (state.place <= ENTRY)
        location = jnp.where(on_street, state.section, -1)
        first = on_street & (shifted(location, 1, -1) != state.section)
        second = on_street & ~first & shifted(first, 1)
        ahead, one = ENTRY - state.place, jnp.ones_like(v)
        standing = has_car & (v <= self.standstill)
        parts = [(first, v), (second, v), (first, ahead), (second, ahead), (on_street, one), (on_street, v)]
        parts += [(has_car, one), (has_car, 1 - v / SPEED_LIMIT), (standing, one)]
        values = [jnp.where(mask, x, 0) for mask, x in parts]
        if self.looks_up:
            sums = self._by_index(state.section, has_car, values)
        else:
            none = [jnp.zeros((self.sections, v.shape[1]), v.dtype)] * len(values)
            sums = separately(lambda: self._by_comparison(state.section, values), none, states.time)
            if jax.default_backend() != "cpu":  # XLA would sum again for every number observed
                sums = jax.lax.optimization_barrier(sums)
        return [each.reshape(-1, len(states.time)) for each in sums]

    def _by_comparison(self, section: jax.Array, values: list[jax.Array]) -> list[jax.Array]:
        """Return sums of values ``(S, L)`` over the cars of each section, ``(K + 1, L)`` each.

        A loop over long rows adds them slot by slot, where XLA would create a reduction of many short ones. On a GPU,
        separate sums take less time than one array of them. `jnp.where` would take longer to trace.
        """
        numbers = np.arange(self.sections, dtype=section.dtype)[:, None]
        zero = jnp.zeros((self.sections, section.shape[1]), section.dtype)
        hits = [jax.lax.broadcast(row, (self.sections,)) == numbers for row in section]
        return [
            functools.reduce(
                jax.lax.add,
                [
                    jax.lax.select(hit, jax.lax.broadcast(row, (self.sections,)), zero)
                    for hit, row in zip(hits, x, strict=True)
                ],
            )
            for x in values
        ]

    def _by_index(self, section: jax.Array, has_car: jax.Array, values: list[jax.Array]) -> list[jax.Array]:
        """Return the same sums, flat, ``((K + 1) L,)`` each."""
        size = self.sections * section.shape[1]
        flat = section.astype(jnp.int32) * section.shape[1] + np.arange(section.shape[1])
        # Zeros of empty slots are dropped: a GPU would add them to the same number, one after another.
        flat = jnp.where(has_car, flat, size).reshape(-1)
        single = 4  # speed and distance of the first and second car of a section
        return sums_by_index([x.reshape(-1) for x in values], flat, size, single=single)


def sums_by_index(
    values: Sequence[jax.Array], index: jax.Array, size: int, *, single: int = 0, as_integers: bool | None = None
) -> list[jax.Array]:
    """Return the sums of each of the values ``(N,)`` by their index ``(N,)``, ``(size,)`` each, equal in every run.

    A GPU adds numbers with the same index in any order. Sums of floating-point numbers then differ in their last bits
    from run to run, and after some updates so do the policies. Sums of integers do not.

    - `index`: integers; numbers with an index of at least `size` are dropped.
    - `single`: how many of the values, the first ones, have at most one number other than 0 per index, which is then
      exact. The others are rounded to 2⁻²⁰ in single precision, which is exact for counts.
    - `as_integers`: whether to add integers; by default unless JAX runs on a CPU, which adds in a fixed order.

    >>> sums = sums_by_index([jnp.array([0.1, 0.0]), jnp.array([1.0, 2.0])], jnp.array([1, 1]), 2, single=1)
    >>> [each.tolist() for each in sums]
    [[0.0, 0.10000000149011612], [0.0, 3.0]]
    """
    if as_integers is None:
        as_integers = jax.default_backend() != "cpu"
    if not as_integers:
        return list(jax.ops.segment_sum(jnp.stack(values, axis=-1), index, size).T)
    dtype = values[0].dtype
    integer, scale = f"int{8 * dtype.itemsize}", 2.0 ** _BITS[dtype.itemsize]
    exact = [jax.lax.bitcast_convert_type(x, integer) for x in values[:single]]
    rounded = [jnp.round(x * scale).astype(integer) for x in values[single:]]
    sums = jax.ops.segment_sum(jnp.stack([*exact, *rounded], axis=-1), index, size).T
    return [jax.lax.bitcast_convert_type(x, dtype) for x in sums[:single]] + [
        x.astype(dtype) / scale for x in sums[single:]
    ]
