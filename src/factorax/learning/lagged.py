"""Credit by lag: every target is counted from the step on in which an action can have reached it."""

from typing import Any

import jax
import jax.numpy as jnp

from .._credit import credit
from ..structure import LaggedNetwork


def lagged_credit(
    network: LaggedNetwork,
    returns: Any,
    next_values: Any,
    *,
    terminated: Any,
    ended: Any,
    discount: Any,
    weights: Any = None,
) -> jax.Array:
    """uᵢ(t) = Σⱼ λⱼ γ^ℓ Rⱼ(t + ℓ), ℓ = ℓᵢⱼ the lag of the edge: the return of what factor i can have changed.

    With Rⱼ(t) the return of target j from t on, as `gae` gives it. If all returns are of whole episodes (γ-discounted,
    λ = 1), it is Σ_τ γ^τ [K[τ](λ∘r(t+τ))]ᵢ. Where an episode or the rollout ends before t + ℓ, the value of its last
    observation stands for what would have come.

    It is a return, not a sum of TD errors over the same K[τ]. Such a sum would be wrong: γ v(s') − v(s) telescopes, so
    that errors before the lag hold what the critic already knows of the change to come. With an exact critic they hold
    all of it.

    **Arguments**, time first: as for `gae`, `returns` and `next_values` ``(T, ..., m)``.

    **Returns** ``(T, ..., n)``.

    >>> net = LaggedNetwork.from_lags([[0, 2]])
    >>> rewards = jnp.array([[1.0, 10.0], [1.0, 20.0], [1.0, 40.0]])
    >>> ended = jnp.array([[False], [False], [True]])
    >>> whole = jnp.cumsum(rewards[::-1], axis=0)[::-1]
    >>> lagged_credit(net, whole, jnp.zeros((3, 2)), terminated=ended, ended=ended, discount=1.0)
    Array([[43.],
           [ 2.],
           [ 1.]], dtype=float32)
    """
    goes_on = 1.0 - jnp.asarray(terminated, jnp.float32)
    after = discount * goes_on * next_values
    ended = jnp.broadcast_to(ended, after.shape)
    total, later, lag = None, returns, 0
    for wanted, net in network.parts.items():
        if wanted > lag:
            later, _ = jax.lax.scan(lambda x, _: (_shifted(x, after, ended, discount * goes_on), None), later,
                                    length=wanted - lag)  # fmt: skip
            lag = wanted
        part = credit(net, later, weights)
        total = part if total is None else total + part
    assert total is not None
    return total


def _shifted(later: jax.Array, after: jax.Array, ended: jax.Array, decay: jax.Array) -> jax.Array:
    """From γ^ℓ R(t + ℓ) to γ^(ℓ+1) R(t + ℓ + 1); where that lies beyond an end, the value there."""
    shifted = decay[:-1] * later[1:]
    return jnp.concatenate([jnp.where(ended[:-1], after[:-1], shifted), after[-1:]])
