"""Counterfactual credit, which the paper treats as special cases: COMA and difference rewards."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import Share, check_finite, check_number, checked, is_traced, real_array
from .._text import shown
from .inputs import check_not_negative


def coma(q: Any, probabilities: Any, actions: Any) -> jax.Array:
    """Return COMA's advantage Aᵢ = Q(s, a) − Σ_b πᵢ(b|s) Q(s, (b, āᵢ)); use it as ψ with K = I.

    K = I is valid although every Aⱼ depends on every action: E[zᵢ Aⱼ] = 0 for i ≠ j, because Aⱼ averages to zero over
    aⱼ given the other actions.

    **Arguments**

    - `q`: Q(s, (b, āᵢ)) for each action b of each factor, shape ``(..., n, n_choices)``.
    - `probabilities`: πᵢ(b|s), same shape. Pad factors with fewer choices with probability 0.
    - `actions`: the drawn actions, integers of shape ``(..., n)``.

    **Returns** an array ``(..., n)``, one target per factor.

    >>> coma(jnp.array([[1.0, 3.0]]), jnp.array([[0.5, 0.5]]), jnp.array([1]))
    Array([1.], dtype=float32)
    """
    q, probabilities = real_array("q", q, jnp, finite=False), real_array("probabilities", probabilities, jnp)
    actions = real_array("actions", actions, jnp)
    if q.shape != probabilities.shape or q.shape[:-1] != actions.shape:
        raise ValueError(
            f"q, probabilities, actions: got shapes {q.shape}, {probabilities.shape}, {actions.shape}; "
            "want (..., n, n_choices) twice and (..., n)"
        )
    if not jnp.issubdtype(actions.dtype, jnp.integer):
        raise TypeError(f"actions: got {actions.dtype}, {shown(actions.tolist())}, want whole numbers")
    if not (is_traced(q) or is_traced(probabilities) or is_traced(actions)):
        check_not_negative("probabilities", probabilities)
        total = np.asarray(probabilities).sum(axis=-1)
        if not np.allclose(total, 1, atol=1e-4):
            raise ValueError(f"probabilities: got a sum of {total.ravel()[0]:.6g}, want 1 for each factor")
        check_finite("q", jnp.where(probabilities > 0, q, 0))
        # Without this check, `take_along_axis` would return NaN, or the last choice for −1.
        invalid = np.asarray(actions)[(np.asarray(actions) < 0) | (np.asarray(actions) >= q.shape[-1])]
        if invalid.size:
            raise ValueError(f"actions: got {invalid[0]}, want numbers from 0 to {q.shape[-1] - 1}")
    q_taken = jnp.take_along_axis(q, actions[..., None], axis=-1)[..., 0]
    return q_taken - (probabilities * jnp.where(probabilities > 0, q, 0)).sum(axis=-1)  # padded entries of q may be NaN


def difference_returns(rewards: Any, counterfactual: Any, gamma: float, *, published: bool = False) -> jax.Array:
    """Return the difference-reward returns of each factor; use them as ψ with K = I.

    **Arguments**

    - `rewards`: the common reward, shape ``(time, ...)``.
    - `counterfactual`: for each factor the reward with its action averaged out, E_{aᵢ}[r(s, (aᵢ, āᵢ))], shape
      ``(time, ..., n)``.
    - `gamma`: the discount factor γ.
    - `published`: if true, return Gᵢ,ₜ = Σₗ γˡ (r − cᵢ)ₜ₊ₗ as in Castellini et al. (2020). In this form the
      counterfactual removes the effect on every *later* step as well, so that the expected gradient contains only
      immediate rewards: it is myopic, and a warning is issued. If false, return Gᵢ,ₜ = Σₗ γˡ rₜ₊ₗ − cᵢ,ₜ, which
      subtracts the counterfactual only at step t and is unbiased.

    **Returns** an array ``(time, ..., n)``.
    """
    rewards, counterfactual = real_array("rewards", rewards, jnp), real_array("counterfactual", counterfactual, jnp)
    if rewards.ndim == 0:
        raise ValueError(f"rewards: got {shown(rewards.item())}, want one reward per step, (time, ...)")
    check_number("gamma", gamma, Share)
    checked("published", published, bool)
    if counterfactual.shape[:-1] != rewards.shape:
        raise ValueError(f"counterfactual: got shape {counterfactual.shape}, want {(*rewards.shape, 'n')}")
    # Kept because published results use it: subtracting the counterfactual of later steps removes the action's later
    # effects.
    if published:
        warnings.warn(
            "published=True: difference rewards as published are myopic, their expected gradient contains only "
            "immediate rewards; published=False subtracts the counterfactual only at the first step and is unbiased",
            stacklevel=2,
        )
        return _discounted(rewards[..., None] - counterfactual, gamma)
    return _discounted(rewards, gamma)[..., None] - counterfactual


def _discounted(rewards: jax.Array, gamma: float) -> jax.Array:
    def step(later: jax.Array, reward: jax.Array) -> tuple[jax.Array, jax.Array]:
        total = reward + gamma * later
        return total, total

    return jax.lax.scan(step, jnp.zeros_like(rewards[0]), rewards, reverse=True)[1]
