"""Checks of the arguments common to all estimators and reports: the policy, its parameters and a batch of samples.

The checks use types and shapes, and values only if they are not traced by JAX.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_function, is_traced, real_array
from .._text import shown

_WANT_LOG_PROB = "a function of params, an observation and an action that returns log-probabilities (n,)"


def check_policy(log_prob: Any, params: Any) -> None:
    """Raise unless `log_prob` is callable and the leaves of `params` are arrays of numbers."""
    check_function("log_prob", log_prob, _WANT_LOG_PROB)
    if jax.tree.leaves(params):  # a policy may have no parameters
        check_tree("params", params)


def check_samples(
    log_prob: Any,
    params: Any,
    *,
    actions: Any,
    psi: Any,
    obs: Any,
    name: str = "psi",
) -> jax.Array:
    """Check the arguments that estimators and reports have in common, and return `psi` as an array.

    - `name`: the caller's name for `psi`, used in messages.
    """
    check_policy(log_prob, params)
    values = real_array(name, psi, jnp)
    if values.ndim == 0 or 0 in values.shape:
        raise ValueError(f"{name}: got {shape_of(psi)}, want (..., n_targets) with at least one sample")
    check_tree("actions", actions)
    if obs is not None:
        check_tree("obs", obs)
    return values


def check_tree(name: str, tree: Any) -> None:
    """Raise unless a tree has leaves, all of which are real numbers or arrays of real numbers."""
    leaves = jax.tree.leaves(tree)
    if not leaves:
        raise TypeError(f"{name}: got {shown(tree)}, want an array, or a tree of arrays")
    for leaf in leaves:
        if not callable(leaf):  # an Equinox module may contain its activation function
            real_array(name, leaf, jnp, finite=False)


def shape_of(value: Any) -> str:
    """Return the shape of an argument for use in a message, or the value of a scalar."""
    return f"shape {jnp.shape(value)}" if jnp.ndim(value) else shown(value)


def check_not_negative(name: str, values: Any) -> None:
    """Raise if an entry of an array is below 0."""
    if not is_traced(values) and (np.asarray(values) < 0).any():
        raise ValueError(f"{name}: got {np.asarray(values).min():g}, want numbers ≥ 0")
