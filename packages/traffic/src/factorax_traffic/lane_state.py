"""The state of the lane simulator: cars in slots, many grids as one grid with more routes, and gathers from it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from factorax._checks import is_traced

from .signals import Signals


class Lanes(NamedTuple):
    """The state of one grid: L routes with S slots each."""

    section: jax.Array
    """Section of each car, counted along its route, ``(S, L)``."""
    place: jax.Array
    """Position in the section, in metres; up to 300 on the street, beyond that in the junction, ``(S, L)``."""
    speed: jax.Array
    """Speed of each car in m/s, ``(S, L)``."""
    wanted: jax.Array
    """Desired speed on an empty road in m/s, ``(S, L)``."""
    cars: jax.Array
    """Number of cars on each route, in the first slots, ``(L,)``."""
    waiting: jax.Array
    """Number of cars that wait to enter each route, ``(L,)``."""
    signals: Signals
    time: jax.Array
    """Number of steps so far."""


def of_one_grid(of_all: Callable[..., Any], *, together: bool = True) -> Callable[..., Any]:
    """Return a function of one grid, given the function of B grids whose arrays have the axis of grids last.

    With `together`, `jax.vmap` of the result calls the given function, unless devices may share the grids: XLA would
    send all of them to every device. Reverse-mode derivatives with respect to one grid then need `jax.vmap` too.
    """

    def of_one(*arguments: Any) -> Any:
        return jax.tree.map(lambda x: x[..., 0], of_all(*jax.tree.map(lambda x: x[..., None], arguments)))

    if not together:
        return of_one
    batched_together = jax.custom_batching.custom_vmap(of_one)

    @batched_together.def_vmap
    def _(size: int, batched: list[Any], *arguments: Any) -> tuple[Any, Any]:
        arguments = jax.tree.map(
            lambda x, has_axis: x if has_axis else jnp.broadcast_to(x, (size, *x.shape)), arguments, tuple(batched)
        )
        if jax.local_device_count() > 1:
            results = jax.vmap(of_one)(*arguments)
        else:
            results = of_all(*jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), arguments))
            results = jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), results)
        return results, jax.tree.map(lambda _: True, results)

    def of_one_or_all(*arguments: Any) -> Any:
        # Outside of a program there is nothing to batch, and JAX would trace and compile the function in every call.
        traced = any(is_traced(x) for x in jax.tree.leaves(arguments))
        return batched_together(*arguments) if traced else of_one(*arguments)

    return of_one_or_all


def as_one_grid(states: Lanes) -> Lanes:
    """Return the routes of B grids, whose axis is the last one, as L B routes of one grid, without lights and time."""
    return jax.tree.map(lambda x: x.reshape(*x.shape[:-2], -1), states._replace(signals=None, time=None))


def first_slots(state: Lanes, count: int) -> Lanes:
    """Return a state with the first slots of each route alone; the others must be empty."""
    return state._replace(**{name: getattr(state, name)[:count] for name in ("section", "place", "speed", "wanted")})


def occupied(state: Lanes) -> jax.Array:
    """Return which slots have a car, booleans ``(S, L)``."""
    return state.cars > np.arange(len(state.place))[:, None]


def shifted(x: jax.Array, by: int, fill: int = 0) -> jax.Array:
    """Return the values `by` slots ahead."""
    return jnp.concatenate([jnp.full_like(x[:by], fill), x[:-by]])


def once(x: Any, positive: jax.Array) -> Any:
    """Return x unchanged, but keep XLA from recomputing it for each of several uses.

    On a GPU, an optimisation barrier suffices. On a CPU, XLA removes barriers before it fuses operations, but it never
    fuses a division into several users. This function therefore divides by a 1 that the compiler cannot infer:
    `positive` is never negative.
    """
    one = jnp.where(positive < 0, 2, 1).astype(positive.dtype)
    return jax.tree.map(lambda y: y / one, jax.lax.optimization_barrier(x))


def pick(table: jax.Array, index: jax.Array) -> jax.Array:
    """Return table[index[..., i], i] for each column i of a table ``(K, L)`` and indices ``(L,)`` or ``(S, L)``.

    >>> pick(jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([1, 0])).tolist()
    [3.0, 2.0]
    """
    index, columns = index.astype(jnp.int32), table.shape[1]
    if jax.default_backend() == "cpu":  # where flat indices take longer
        return jnp.take_along_axis(table, index.reshape(-1, columns), axis=0).reshape(index.shape)
    return take(table.reshape(-1), index * columns + np.arange(columns))


# `jax.vmap` turns a gather into one with an index for each axis. XLA writes these indices to memory and transposes the
# result, which takes longer than the gather itself. Here all tables are joined to a single flat one instead.
@jax.custom_batching.custom_vmap
def take(table: jax.Array, index: jax.Array) -> jax.Array:
    """Return table[index] for a table ``(N,)`` and whole numbers from 0 to N − 1 of any shape.

    >>> take(jnp.array([3.0, 4.0, 5.0]), jnp.array([[2, 0]])).tolist()
    [[5.0, 3.0]]
    """
    return table.at[index].get(mode="promise_in_bounds")


@take.def_vmap
def _(size: int, batched: list[bool], table: jax.Array, index: jax.Array) -> tuple[Any, bool]:
    if not batched[0]:
        return take(table, index), True
    each = table.shape[1]
    # Beyond the range of indices, or where devices may share the tables: XLA would send the joined one to all of them.
    if size * each >= 2**31 or jax.local_device_count() > 1:
        in_axes = tuple(0 if is_batched else None for is_batched in batched)
        plain = lambda table, index: table.at[index].get(mode="promise_in_bounds")  # noqa: E731
        return jax.vmap(plain, in_axes)(table, index), True
    index = index if batched[1] else jnp.broadcast_to(index, (size, *index.shape))
    first = jnp.arange(size, dtype=index.dtype).reshape(-1, *[1] * (index.ndim - 1)) * each
    return take(table.reshape(-1), index + first), True
