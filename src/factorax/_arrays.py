"""Arrays for which XLA compiles as little as possible.

Arrays that are known before anything is computed are copied from the host: `jnp.zeros` and `jnp.asarray` compile a
program for every shape, about 20 ms each, and a new model has many shapes. Random numbers are drawn with one axis.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._checks import is_traced


def on_device(values: Any, dtype: Any = None) -> jax.Array:
    """Return numbers as an array on the default device, in single precision unless JAX has been set to double.

    >>> on_device([0.5, 2.0]).dtype.name
    'float32'
    """
    return jax.device_put(np.asarray(values, dtype))


def zeros(shape: Any, dtype: Any = float) -> jax.Array:
    """Return zeros, as `jnp.zeros`."""
    # Under tracing, an array of the host would become a constant of the program, however large.
    return jnp.zeros(shape, dtype) if tracing() else on_device(np.zeros(shape, dtype))


def ones(shape: Any, dtype: Any = float) -> jax.Array:
    """Return ones, as `jnp.ones`."""
    return jnp.ones(shape, dtype) if tracing() else on_device(np.ones(shape, dtype))


def zeros_of(function: Any, *arguments: Any) -> Any:
    """Return what a function returns for these arguments, with zeros in the place of every array."""
    return jax.tree.map(lambda like: zeros(like.shape, like.dtype), jax.eval_shape(function, *arguments))


def drawn(draw: Callable[..., jax.Array], key: jax.Array, shape: tuple[int, ...], *options: Any) -> jax.Array:
    """Return ``draw(key, shape, *options)``, with JAX's default generator the same numbers, drawn with one axis.

    On a CPU, XLA takes a second to compile random bits with two axes, and a tenth of that with one. Drawing with two
    axes takes two to three times as long.

    >>> key = jax.random.key(0)
    >>> bool((drawn(jax.random.normal, key, (5, 3)) == jax.random.normal(key, (5, 3))).all())
    True
    """
    return draw(key, (math.prod(shape),), *options).reshape(shape)


def tracing() -> bool:
    """Return whether JAX traces a function, perhaps to find out shapes that would not fit into memory."""
    # JAX has no public function that tells; the type of any new array does.
    return is_traced(jnp.zeros(()))
