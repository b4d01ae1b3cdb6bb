"""Generalised advantage estimation, one target at a time."""

from typing import Any

import jax
import jax.numpy as jnp


def gae(
    psi: Any,
    values: Any,
    next_values: Any,
    *,
    terminated: Any,
    ended: Any,
    discount: float,
    trace: float,
) -> tuple[jax.Array, jax.Array]:
    """Advantages and returns of every target (Schulman et al., 2016).

        δ_t = ψ_t + γ (1 − terminated_t) v(s'_t) − v(s_t),    A_t = δ_t + γλ (1 − ended_t) A_{t+1}.

    What ends an episode cuts the sum, but only what *terminates* it (or a target of it) cuts the bootstrap: an episode
    that is truncated still has a future, whose value is that of its last observation.

    **Arguments**, time first:

    - `psi`: the targets, ``(T, ..., m)``.
    - `values`, `next_values`: v(s_t), and v of the observation that *followed*, ``(T, ..., m)``: at the end of an
      episode that of its last observation, not of the next episode's first.
    - `terminated`: ``(T, ..., m)``, or ``(T, ..., 1)`` if all targets end together.
    - `ended`: ``(T, ..., 1)``, terminated or truncated.
    - `discount`, `trace`: γ and λ.

    **Returns** the advantages and the returns v + A, both ``(T, ..., m)``.
    """
    psi, values, next_values = jnp.asarray(psi), jnp.asarray(values), jnp.asarray(next_values)
    if not psi.shape == values.shape == next_values.shape:
        raise ValueError(
            f"values, next_values: got shapes {values.shape} and {next_values.shape}, want that of psi, {psi.shape}"
        )
    goes_on = 1.0 - jnp.asarray(terminated, psi.dtype)
    delta = psi + discount * goes_on * next_values - values
    # A target that has terminated has no advantage left to hand back, though its episode may go on.
    decay = discount * trace * goes_on * (1.0 - jnp.asarray(ended, psi.dtype))
    decay = jnp.broadcast_to(decay, delta.shape)

    def back(after: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        advantage = now[0] + now[1] * after
        return advantage, advantage

    _, advantages = jax.lax.scan(back, jnp.zeros_like(delta[0]), (delta, decay), reverse=True)
    return advantages, advantages + values
