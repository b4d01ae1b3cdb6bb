"""Gathers from flat tables that stay flat when they are vectorised.

`jax.vmap` turns a gather into one with an index for each axis. XLA writes these indices to memory and transposes the
result, which takes longer than the gather itself. Here all tables are joined to a single one instead.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def pick(table: jax.Array, index: jax.Array) -> jax.Array:
    """Return table[index[..., i], i] for each column i of a table ``(K, L)`` and indices ``(L,)`` or ``(S, L)``.

    >>> pick(jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([1, 0])).tolist()
    [3.0, 2.0]
    """
    index, columns = index.astype(jnp.int32), table.shape[1]
    if jax.default_backend() == "cpu":  # where flat indices take longer
        return jnp.take_along_axis(table, index.reshape(-1, columns), axis=0).reshape(index.shape)
    return take(table.reshape(-1), index * columns + np.arange(columns))


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
