"""Counterfactual credit, which the paper counts as a special case: COMA and difference rewards."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp


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
    q, probabilities, actions = jnp.asarray(q), jnp.asarray(probabilities), jnp.asarray(actions)
    if q.shape != probabilities.shape or q.shape[:-1] != actions.shape:
        raise ValueError(
            f"q, probabilities, actions: got shapes {q.shape}, {probabilities.shape}, {actions.shape}; "
            "want (..., n, n_choices) twice and (..., n)"
        )
    taken = jnp.take_along_axis(q, actions[..., None], axis=-1)[..., 0]
    return taken - (probabilities * jnp.where(probabilities > 0, q, 0)).sum(axis=-1)  # padding may hold anything


def difference_returns(rewards: Any, counterfactual: Any, gamma: float, *, published: bool = False) -> jax.Array:
    """Difference-reward returns of every factor; use them as ψ with K = I.

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
    rewards, counterfactual = jnp.asarray(rewards), jnp.asarray(counterfactual)
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
