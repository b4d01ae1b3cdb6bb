"""Special functions for NumPy and JAX arrays. JAX and `scipy.special` are imported when they are needed, never before:
every worker process imports this package, and most do without both."""

from typing import Any

import numpy as np

Array = Any
"""A NumPy or a JAX array."""


def namespace(*arrays: Array) -> Any:
    """Return the module that works on all of the arrays: `numpy`, or `jax.numpy` if any of them belongs to JAX.

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


def log_softmax(x: Array, xp: Any) -> Array:
    """Return x − log Σ eˣ, the sum being over the last axis."""
    if xp is np:
        return x - np.logaddexp.reduce(x, axis=-1, keepdims=True)
    import jax

    return jax.nn.log_softmax(x, axis=-1)
