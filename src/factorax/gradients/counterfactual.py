"""Counterfactual credit, which the paper counts as a special case: COMA and difference rewards."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import Share, check_finite, check_number, checked, is_traced, real_array, shown
from .inputs import check_not_negative


def coma(q: Any, probabilities: Any, actions: Any) -> jax.Array:
    """COMA's counterfactual advantage Aᵢ = Q(s, a) − Σ_b πᵢ(b|s) Q(s, (b, āᵢ)); use it as ψ with K = I.

    K = I is right not because factor i influences target i alone (every Aⱼ depends on every action), but because
    E[zᵢ Aⱼ] = 0 for i ≠ j: given the others' actions, Aⱼ averages to zero over aⱼ.

    **Arguments**

    - `q`: Q(s, (b, āᵢ)) for every own action b of every factor, shape ``(..., n, n_choices)``.
    - `probabilities`: πᵢ(b|s), same shape. Pad factors of fewer choices with probability 0.
    - `actions`: what was drawn, integers of shape ``(..., n)``.

    **Returns** ``(..., n)``, a target for each factor.
    """
    q, probabilities = real_array("q", q, jnp, finite=False), real_array("probabilities", probabilities, jnp)
    actions = real_array("actions", actions, jnp)
    if q.shape != probabilities.shape or q.shape[:-1] != actions.shape:
        raise ValueError(
            f"q, probabilities, actions: got shapes {q.shape}, {probabilities.shape}, {actions.shape}; "
            "want (..., n, n_choices) twice and (..., n)"
        )
    _check_choices(q, probabilities, actions)
    taken = jnp.take_along_axis(q, actions[..., None], axis=-1)[..., 0]
    return taken - (probabilities * jnp.where(probabilities > 0, q, 0)).sum(axis=-1)  # padding may hold anything


def difference_returns(rewards: Any, counterfactual: Any, gamma: float, *, published: bool = False) -> jax.Array:
    """Return difference-reward returns of every factor; use them as ψ with K = I.

    **Arguments**

    - `rewards`: the common reward, shape ``(time, ...)``.
    - `counterfactual`: for every factor the reward with its action averaged out, E_{aᵢ}[r(s, (aᵢ, āᵢ))], ``(time,
      ..., n)``.
    - `gamma`: γ.
    - `published`: if true, Gᵢ,ₜ = Σₗ γˡ (r − cᵢ)ₜ₊ₗ as in Castellini et al. (2020). There the counterfactual of every
      *later* step averages to zero as well, so that the expected gradient holds immediate rewards only: it is
      myopic, and a warning says so. Otherwise Gᵢ,ₜ = Σₗ γˡ rₜ₊ₗ − cᵢ,ₜ, which subtracts at step t alone and is
      unbiased.

    **Returns** ``(time, ..., n)``.
    """
    rewards, counterfactual = real_array("rewards", rewards, jnp), real_array("counterfactual", counterfactual, jnp)
    if rewards.ndim == 0:
        raise ValueError(f"rewards: got {shown(rewards.item())}, want one for each step, (time, ...)")
    check_number("gamma", gamma, Share)
    checked("published", published, bool)
    if counterfactual.shape[:-1] != rewards.shape:
        raise ValueError(f"counterfactual: got shape {counterfactual.shape}, want {(*rewards.shape, 'n')}")
    if published:
        warnings.warn(
            "difference rewards as published keep immediate rewards only: the expected gradient is myopic. "
            "published=False subtracts the counterfactual at the first step alone and is unbiased",
            stacklevel=2,
        )
        return _discounted(rewards[..., None] - counterfactual, gamma)
    return _discounted(rewards, gamma)[..., None] - counterfactual


def _discounted(rewards: jax.Array, gamma: float) -> jax.Array:
    def step(later: jax.Array, reward: jax.Array) -> tuple[jax.Array, jax.Array]:
        total = reward + gamma * later
        return total, total

    return jax.lax.scan(step, jnp.zeros_like(rewards[0]), rewards, reverse=True)[1]


def _check_choices(q: jax.Array, probabilities: jax.Array, actions: jax.Array) -> None:
    """Raise if probabilities do not add up to 1, or an action is none of the choices; unless JAX traces them."""
    if not jnp.issubdtype(actions.dtype, jnp.integer):
        raise TypeError(f"actions: got {actions.dtype}, {shown(actions.tolist())}, want whole numbers")
    if is_traced(q) or is_traced(probabilities) or is_traced(actions):
        return
    check_not_negative("probabilities", probabilities)
    total = np.asarray(probabilities).sum(axis=-1)
    if not np.allclose(total, 1, atol=1e-4):
        raise ValueError(f"probabilities: got a sum of {total.ravel()[0]:.6g}, want 1 for each factor")
    check_finite("q", jnp.where(probabilities > 0, q, 0))
    odd = np.asarray(actions)[(np.asarray(actions) < 0) | (np.asarray(actions) >= q.shape[-1])]
    if odd.size:
        raise ValueError(f"actions: got {odd[0]}, want numbers from 0 to {q.shape[-1] - 1}")
