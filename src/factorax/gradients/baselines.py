"""Baselines to subtract in addition to the factor baseline: b(s), bⱼ(s) and bᵢ(s, āᵢ).

A per-target baseline is subtracted from ψ, any other from the credit (the `baseline` argument of an estimator). No
baseline depends on the action aᵢ of its own factor, so E[zᵢ bᵢ] = 0 given the state and the other actions (Lemma A.1;
the paper states it for the score of a marginal distribution, but it holds for the conditional one). For the baselines
that minimise the variance see `factorax.gradients.optimal`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .._checks import Share, check_function, check_number, real_array
from .inputs import shape_of


def leave_one_out(psi: Any) -> jax.Array:
    """Return for each sample the mean of all other samples: an unbiased b(s) from a batch drawn in one state.

    `psi` has shape ``(batch, n_targets)`` for a baseline bⱼ(s) per target, and ``(batch, 1)`` for a scalar b(s).

    >>> leave_one_out(jnp.array([[1.0], [2.0], [6.0]])).ravel()
    Array([4. , 3.5, 1.5], dtype=float32)
    """
    values = real_array("psi", psi, jnp)
    if values.ndim != 2 or len(values) < 2:
        raise ValueError(
            f"psi: got {shape_of(psi)}, want (batch, n_targets), with at least two samples of one state; map over "
            "states with jax.vmap"
        )
    # Without the sample's ψ, which depends on its action.
    return (values.sum(axis=0, keepdims=True) - values) / (len(values) - 1)


def running_value(value: Any, psi: Any, rate: float = 0.1) -> jax.Array:
    """Return b(s) or bⱼ(s) after one learning step in a problem with one state: v ← v + rate (ψ − v).

    `psi` has the shape of `value`, or additional batch axes in front, over which the step is averaged. Use the value
    *before* the step as the baseline of these samples.

    >>> running_value(jnp.array([1.0]), jnp.array([[2.0], [4.0]]), rate=0.5)
    Array([2.], dtype=float32)
    """
    value, psi = real_array("value", value, jnp), real_array("psi", psi, jnp)
    check_number("rate", rate, Share)
    if 0 in psi.shape or psi.shape[psi.ndim - value.ndim :] != value.shape:
        raise ValueError(f"psi: got shape {psi.shape}, want (..., {', '.join(map(str, value.shape))}) as in value")
    return value + rate * (psi - value).mean(axis=tuple(range(psi.ndim - value.ndim)))


def separable_baseline(terms: Callable[[jax.Array], jax.Array], actions: Any, replacement: Any) -> jax.Array:
    """Return bᵢ(s, āᵢ) of a separable function b(a) = Σᵢ fᵢ(aᵢ) in O(n): the sum with one term replaced.

    bᵢ = Σₗ fₗ(aₗ) − fᵢ(aᵢ) + fᵢ(replacementᵢ). A function of the full action is not a valid baseline, since it depends
    on aᵢ. It becomes valid if aᵢ is replaced by something independent of it, such as its mean (Lemma A.1).

    **Arguments**

    - `terms`: maps actions ``(..., n)`` to the terms f₁(a₁) … fₙ(aₙ), shape ``(..., n)``.
    - `actions`: shape ``(..., n)``.
    - `replacement`: the value that replaces each action; its shape broadcasts to that of `actions`. With an additional
      axis of samples in front, ``(samples, ..., n)``, the terms are averaged over it.

    **Returns** an array ``(..., n)``, to be passed as the `baseline` of an estimator.

    >>> separable_baseline(jnp.abs, jnp.array([1.0, -2.0, 4.0]), jnp.zeros(3))
    Array([6., 5., 3.], dtype=float32)
    """
    check_function("terms", terms, "a function from actions (..., n) to terms (..., n)")
    actions, replacement = _exchanged(actions, replacement)
    actual, exchanged = terms(actions), terms(replacement)
    if actual.shape != actions.shape:  # a sum over actions would broadcast and give a baseline that depends on aᵢ
        raise ValueError(f"terms: got shape {actual.shape}, want {actions.shape}, one term per action")
    if exchanged.ndim > actions.ndim:
        exchanged = exchanged.mean(axis=0)
    return actual.sum(axis=-1, keepdims=True) - actual + exchanged


def substituted_baseline(function: Callable[[jax.Array], jax.Array], actions: Any, replacement: Any) -> jax.Array:
    """Return bᵢ(s, āᵢ) of any function b(a) of the full action, with n evaluations that replace one action each.

    `function` maps ``(..., n)`` to ``(...)``; `actions` and `replacement` are as in `separable_baseline`, which is n
    times cheaper if the function is a sum of terms. Returns an array ``(..., n)``.
    """
    check_function("function", function, "a function from actions (..., n) to values (...)")
    actions, replacement = _exchanged(actions, replacement)
    index = jnp.arange(actions.shape[-1])

    def all_factors(stand_in: jax.Array) -> jax.Array:
        # One factor after another: all at once would take n times the memory of the actions.
        values = jax.lax.map(lambda i: function(jnp.where(index == i, stand_in, actions)), index)
        return jnp.moveaxis(values, 0, -1)

    if replacement.ndim > actions.ndim:
        return jax.lax.map(all_factors, replacement).mean(axis=0)
    return all_factors(replacement)


def _exchanged(actions: Any, replacement: Any) -> tuple[jax.Array, jax.Array]:
    """Return the actions and their replacements as arrays of compatible shapes."""
    array, other = real_array("actions", actions, jnp), real_array("replacement", replacement, jnp)
    if array.ndim == 0:
        raise ValueError(f"actions: got {shape_of(actions)}, want (..., n)")
    if other.ndim and other.shape[-1] not in (1, array.shape[-1]):
        raise ValueError(f"replacement: got shape {other.shape}, want (..., {array.shape[-1]}), as in actions")
    return array, other
