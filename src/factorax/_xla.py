"""Keep XLA from computing the same results several times, or results that are not needed.

XLA merges loops into those that use their results, and then computes a result again for each use. In the lane
simulator, where most results have several uses, this takes several times as long. A condition leaves out what is not
needed, unless `jax.vmap` turns it into a condition for each element.
"""

from collections.abc import Callable
from typing import Any

import jax

from ._arrays import tracing


def of_all(function: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    """Return a function of an array that `jax.vmap` applies once, to the arrays of all elements together.

    For conditions: `jax.lax.cond` with a condition for each element computes both branches.

    >>> import jax.numpy as jnp
    >>> largest_of_all = of_all(lambda x: x.max())
    >>> jax.vmap(largest_of_all)(jnp.arange(3)).tolist()
    [2, 2, 2]
    """
    whole = jax.custom_batching.custom_vmap(function)
    whole.def_vmap(lambda size, batched, x: (whole(x), False))
    return whole


any_of_all = of_all(lambda x: x.any())
"""Whether any entry is true, in the arrays of all elements of `jax.vmap`."""


def separately(function: Callable[[], Any], otherwise: Any, positive: jax.Array) -> Any:
    """Return function(), computed apart from what uses it, on a CPU: its results are written to memory, once.

    The function becomes a branch of a condition that always holds, which XLA cannot infer: `positive` is never
    negative. The other branch is `otherwise`, of the same shapes. XLA does not merge loops across the border of a
    branch, and on a CPU a condition costs about a microsecond.
    """
    if jax.default_backend() != "cpu" or not tracing():  # outside of a program, JAX would compile it in every call
        return function()
    return jax.lax.cond(_holds(jax.lax.stop_gradient(positive)), function, lambda: otherwise)


@of_all
def _holds(positive: jax.Array) -> jax.Array:
    """Return true."""
    return positive.reshape(-1)[0] >= 0
