"""Sums by index that do not depend on the order of addition, and are therefore equal in every run on a GPU.

A GPU adds numbers with the same index in any order. Sums of floating-point numbers then differ in their last bits from
run to run, and after some updates so do the policies. Sums of integers do not.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

_BITS = {4: 20, 8: 44}
"""Binary places of numbers that are added as integers, by the bytes of a number: sums must stay below 2,048 and 2¹⁹."""


def sums_by_index(
    values: Sequence[jax.Array], index: jax.Array, size: int, *, single: int = 0, as_integers: bool | None = None
) -> list[jax.Array]:
    """Return the sums of each of the values ``(N,)`` by their index ``(N,)``, ``(size,)`` each.

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
