"""Samples as rows of one array, so that a device gathers a minibatch in one operation."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from .advantages import Samples


def packed(samples: Samples) -> Callable[[jax.Array], Samples]:
    """Return a function from indices of samples to a minibatch: all arrays are columns of one, so that one gather
    suffices.

    Integers and booleans are exact as floats.
    """
    leaves, structure = jax.tree.flatten(samples)
    rows = jnp.concatenate([x.reshape(len(x), -1).astype(jnp.float32) for x in leaves], axis=1)
    ends = np.cumsum([0, *(x.size // len(x) for x in leaves)])

    def take(indices: jax.Array) -> Samples:
        columns = rows[indices]
        parts = [
            columns[:, first:last].reshape(len(indices), *x.shape[1:]).astype(x.dtype)
            for x, first, last in zip(leaves, ends[:-1], ends[1:], strict=True)
        ]
        return jax.tree.unflatten(structure, parts)

    return take
