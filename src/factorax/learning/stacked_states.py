"""Training states of several seeds as one, each array with an axis of states in front, and the states taken apart.

Both work on the host: on a GPU, every shape of an array would take a compilation of its own.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .state import TrainState


def stacked(states: Sequence[TrainState]) -> TrainState:
    """Return states as one, each array with an axis of states in front."""
    arrays = [_on_host(eqx.filter(state, eqx.is_array)) for state in states]
    together = jax.tree.map(lambda *leaves: np.stack(leaves), *arrays)
    return _on_device(together, states[0])


def apart(states: TrainState, count: int) -> list[TrainState]:
    """Return the states that `stacked` made one of."""
    arrays = _on_host(eqx.filter(states, eqx.is_array))
    return [_on_device(jax.tree.map(lambda leaf, i=i: leaf[i], arrays), states) for i in range(count)]


def _is_key(x: Any) -> bool:
    return eqx.is_array(x) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _on_host(arrays: Any) -> Any:
    """Return arrays as NumPy arrays, and keys as their data."""
    return jax.device_get(jax.tree.map(lambda x: jax.random.key_data(x) if _is_key(x) else x, arrays))


def _on_device(arrays: Any, like: TrainState) -> TrainState:
    """Return arrays of the host on the default device, with keys and everything that is not an array as in `like`."""
    placed = jax.device_put(arrays)  # recent versions of JAX compile a program for `jnp.asarray`
    kept, rest = eqx.partition(like, eqx.is_array)
    wrap = lambda x, old: jax.random.wrap_key_data(x, impl=jax.random.key_impl(old)) if _is_key(old) else x  # noqa: E731
    return eqx.combine(jax.tree.map(wrap, placed, kept), rest)
