"""Baselines to subtract in addition to the factor baseline: b(s), bⱼ(s) and bᵢ(s, āᵢ).

A per-target baseline is subtracted from ψ, any other from the credit (the `baseline` of an estimator). None of them
depends on the action aᵢ of its own factor: given the state and the others' actions, E[zᵢ bᵢ] = 0 (Lemma A.1, which the
paper prints with the score of a marginal law; it holds for the score of the conditional one). For the baselines that
minimise the variance see `factorax.gradients.optimal`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .._checks import Share, check_function, check_number, real_array
from .inputs import shape_of


def leave_one_out(psi: Any) -> jax.Array:
    """Return for every sample the mean of all others: an unbiased b(s) from a batch drawn at one state.

    `psi` has shape ``(batch, n_targets)`` for a baseline bⱼ(s) a target, ``(batch, 1)`` for a scalar b(s).

    >>> leave_one_out(jnp.array([[1.0], [2.0], [6.0]])).ravel()
    Array([4. , 3.5, 1.5], dtype=float32)
    """
    given, psi = psi, real_array("psi", psi, jnp)
    if psi.ndim != 2 or psi.shape[0] < 2:
        raise ValueError(
            f"psi: got {shape_of(given)}, want (batch, n_targets), at least two samples of one state; "
            "map over states with jax.vmap"
        )
    return (psi.sum(axis=0, keepdims=True) - psi) / (psi.shape[0] - 1)


def running_value(value: Any, psi: Any, rate: float = 0.1) -> jax.Array:
    """Return a learnt b(s) or bⱼ(s) for a problem of one state: the temporal-difference step v ← v + rate (ψ − v).

    `psi` has the shape of `value`, or batch axes in front, over which the steps are averaged. The value *before* the
    step is the baseline of these samples.
    """
    value, psi = real_array("value", value, jnp), real_array("psi", psi, jnp)
    check_number("rate", rate, Share)
    if 0 in psi.shape or psi.shape[psi.ndim - value.ndim :] != value.shape:
        raise ValueError(f"psi: got shape {psi.shape}, want (..., {', '.join(map(str, value.shape))}) as in value")
    return value + rate * (psi - value).mean(axis=tuple(range(psi.ndim - value.ndim)))


def separable_baseline(terms: Callable[[jax.Array], jax.Array], actions: Any, replacement: Any) -> jax.Array:
    """bᵢ(s, āᵢ) of a separable function b(a) = Σᵢ fᵢ(aᵢ), in O(n): the total, with one term exchanged.

    bᵢ = Σₗ fₗ(aₗ) − fᵢ(aᵢ) + fᵢ(replacementᵢ). A function of the whole action is not a baseline, since it depends on
    aᵢ too; with aᵢ replaced by anything that does not depend on it (its mean, say) it is, by Lemma A.1.

    **Arguments**

    - `terms`: from actions ``(..., n)`` to the terms f₁(a₁) … fₙ(aₙ), shape ``(..., n)``.
    - `actions`: shape ``(..., n)``.
    - `replacement`: what stands in for each action, a shape that broadcasts to that of `actions`. With an axis of
      samples in front, ``(samples, ..., n)``, the terms are averaged over it.

    **Returns** ``(..., n)``: the `baseline` of an estimator.

    >>> separable_baseline(jnp.abs, jnp.array([1.0, -2.0, 4.0]), jnp.zeros(3))
    Array([6., 5., 3.], dtype=float32)
    """
    check_function("terms", terms, "a function from actions (..., n) to terms (..., n)")
    actions, replacement = _exchanged(actions, replacement)
    actual, exchanged = terms(actions), terms(replacement)
    if actual.shape != actions.shape:
        raise ValueError(f"terms: got shape {actual.shape}, want {actions.shape}, one term for each action")
    if exchanged.ndim > actions.ndim:
        exchanged = exchanged.mean(axis=0)
    return actual.sum(axis=-1, keepdims=True) - actual + exchanged


def substituted_baseline(function: Callable[[jax.Array], jax.Array], actions: Any, replacement: Any) -> jax.Array:
    """bᵢ(s, āᵢ) of any function b(a) of the whole action, by n evaluations with one action exchanged in each.

    `function` maps ``(..., n)`` to ``(...)``; `actions` and `replacement` as in `separable_baseline`, which is n
    times cheaper where the function is a sum of terms. Returns ``(..., n)``.
    """
    check_function("function", function, "a function from actions (..., n) to values (...)")
    actions, replacement = _exchanged(actions, replacement)
    n = actions.shape[-1]

    def without(i: jax.Array, stand_in: jax.Array) -> jax.Array:
        return function(jnp.where(jnp.arange(n) == i, stand_in, actions))

    def all_factors(stand_in: jax.Array) -> jax.Array:
        values = jax.lax.map(lambda i: without(i, stand_in), jnp.arange(n))
        return jnp.moveaxis(values, 0, -1)

    if replacement.ndim > actions.ndim:
        return jax.lax.map(all_factors, replacement).mean(axis=0)
    return all_factors(replacement)


def _exchanged(actions: Any, replacement: Any) -> tuple[jax.Array, jax.Array]:
    """Return actions and what stands in for each of them, of shapes that fit."""
    given, array = actions, real_array("actions", actions, jnp)
    if array.ndim == 0:
        raise ValueError(f"actions: got {shape_of(given)}, want (..., n)")
    other = real_array("replacement", replacement, jnp)
    if other.ndim and other.shape[-1] not in (1, array.shape[-1]):
        raise ValueError(f"replacement: got shape {other.shape}, want (..., {array.shape[-1]}), as actions have")
    return array, other
