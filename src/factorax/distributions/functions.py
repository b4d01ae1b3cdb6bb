"""Special functions for NumPy and JAX arrays."""

from functools import reduce
from operator import add
from typing import Any

import numpy as np

Array = Any
"""A NumPy or a JAX array."""


def namespace(*arrays: Array) -> Any:
    """Return the module for these arrays: `jax.numpy` if any of them is a JAX array, otherwise `numpy`.

    >>> namespace(np.zeros(2)).__name__
    'numpy'
    """
    if all(isinstance(array, np.ndarray | np.generic) for array in arrays):
        return np
    import jax.numpy as jnp

    return jnp


def special(xp: Any) -> Any:
    """Return `scipy.special`, or `jax.scipy.special` for `jax.numpy`."""
    if xp is np:
        # Here, as JAX is: each worker process imports this file, and most need neither.
        import scipy.special

        return scipy.special
    import jax.scipy.special

    return jax.scipy.special


def softplus(x: Array, xp: Any) -> Array:
    """Return log(1 + eˣ) without overflow.

    >>> softplus(np.array([0.0, 800.0]), np).round(3).tolist()
    [0.693, 800.0]
    """
    return xp.logaddexp(x, 0.0)


MAX_UNROLLED_AXIS = 8
"""Up to this length, the last axis is summed entry by entry. XLA's CPU compiler calls a library function for each
reduction, which takes about ten times as long for an axis this short."""


def sum_last(x: Array) -> Array:
    """Return the sum of x over the last axis.

    >>> sum_last(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [3.0, 7.0]
    """
    if isinstance(x, np.ndarray) or x.shape[-1] > MAX_UNROLLED_AXIS:
        return x.sum(axis=-1)
    return reduce(add, _columns(x))


def log_softmax(x: Array, xp: Any) -> Array:
    """Return x − log Σ eˣ along the last axis."""
    if xp is np:
        # Does not overflow, as a sum of exponentials would.
        return x - np.logaddexp.reduce(x, axis=-1, keepdims=True)
    import jax

    if x.shape[-1] > MAX_UNROLLED_AXIS:
        return jax.nn.log_softmax(x, axis=-1)
    # The largest entry cancels in the result, so it needs no gradient.
    x = x - jax.lax.stop_gradient(reduce(xp.maximum, _columns(x)))[..., None]
    return x - xp.log(sum_last(xp.exp(x)))[..., None]


def at_choice(x: Array, choice: Array, xp: Any) -> Array:
    """Return the entry of x, ``(..., n)``, at index `choice`, ``(...)``, of its last axis.

    >>> at_choice(np.array([[0.1, 0.2], [0.3, 0.4]]), np.array([1.0, 0.0]), np).tolist()
    [0.2, 0.3]
    """
    index = choice[..., None].astype(np.int32)
    if xp is np or x.shape[-1] > MAX_UNROLLED_AXIS:
        return xp.take_along_axis(x, index, axis=-1)[..., 0]
    return sum_last(xp.where(index == np.arange(x.shape[-1]), x, 0.0))


def _columns(x: Array) -> list[Array]:
    return [x[..., i] for i in range(x.shape[-1])]
