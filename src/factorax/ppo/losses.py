"""The mathematics of factored PPO: arrays in, arrays out.

    L = −E Σᵢ min(rᵢ Cᵢ, clip(rᵢ, 1 ± ε) Cᵢ),    rᵢ = πᵢ(aᵢ|s) / πᵢ_old(aᵢ|s),    C = [K(λ∘A)]

with A the advantage of every target, and one ratio rᵢ and one credit Cᵢ per factor. With K all ones and the joint ratio
∏ᵢ rᵢ instead it is textbook PPO (Schulman et al., 2017). Axes are in the order time T, environment B, and then factor n
or target m; samples are ``(N, n)``. `factorax.credit` computes [K(λ∘A)].
"""

from typing import Any

import jax
import jax.numpy as jnp

from .._checks import Share, check_number, real_array


def gae(
    psi: Any,
    values: Any,
    next_values: Any,
    *,
    terminated: Any,
    ended: Any,
    gamma: float,
    trace: float,
) -> tuple[jax.Array, jax.Array]:
    """Return advantages and returns of each target (Schulman et al., 2016).

        δ_t = ψ_t + γ (1 − terminated_t) v(s'_t) − v(s_t),    A_t = δ_t + γλ (1 − ended_t) A_{t+1}.

    Any end of an episode cuts the sum, but only termination (of the episode, or of one target) cuts the bootstrap: a
    truncated episode still has a future, with the value of its last observation.

    **Arguments**, time first:

    - `psi`: the targets, ``(T, ..., m)``.
    - `values`, `next_values`: v(s_t), and v of the observation that *followed*, ``(T, ..., m)``: at the end of an
      episode this is its last observation, not the first of the next episode.
    - `terminated`: ``(T, ..., m)``, or ``(T, ..., 1)`` if all targets end together.
    - `ended`: ``(T, ..., 1)``, terminated or truncated.
    - `gamma`, `trace`: γ and λ.

    **Returns** the advantages and the returns v + A, both ``(T, ..., m)``.

    >>> advantage, returns = gae([[1.0], [1.0]], [[0.0], [0.0]], [[0.0], [4.0]], terminated=[[0], [0]],
    ...                          ended=[[0], [1]], gamma=0.5, trace=1.0)
    >>> advantage.ravel().tolist()
    [2.5, 3.0]
    """
    psi, values, next_values = (
        real_array(name, x, jnp, finite=False)
        for name, x in (("psi", psi), ("values", values), ("next_values", next_values))
    )
    check_number("gamma", gamma, Share)
    check_number("trace", trace, Share)
    if psi.ndim == 0 or not psi.shape == values.shape == next_values.shape:
        raise ValueError(
            f"psi, values, next_values: got shapes {psi.shape}, {values.shape} and {next_values.shape}, want the same "
            "for all, with time first"
        )
    terminated, ended = _flags("terminated", terminated, psi), _flags("ended", ended, psi)
    continues = 1.0 - terminated
    delta = psi + gamma * continues * next_values - values
    # A terminated target passes no advantage back, even if its episode continues.
    decay = jnp.broadcast_to(gamma * trace * continues * (1.0 - ended), delta.shape)

    def back(after: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        advantage = now[0] + now[1] * after
        return advantage, advantage

    _, advantages = jax.lax.scan(back, jnp.zeros_like(delta[0]), (delta, decay), reverse=True)
    return advantages, advantages + values


def _flags(name: str, flags: Any, psi: jax.Array) -> jax.Array:
    """Return flags as numbers; raise unless they can be broadcast to the shape of psi."""
    array = real_array(name, flags, jnp)
    sizes = zip(array.shape[::-1], psi.shape[::-1], strict=False)
    if array.ndim > psi.ndim or any(a not in (1, b) for a, b in sizes):
        raise ValueError(f"{name}: got shape {array.shape}, want one that broadcasts to that of psi, {psi.shape}")
    return jnp.asarray(array, psi.dtype)


def clipped_loss(log_ratio: jax.Array, credit: jax.Array, clip_range: Any) -> jax.Array:
    """Return −E Σᵢ min(rᵢ Cᵢ, clip(rᵢ, 1 ± ε) Cᵢ), the loss of PPO with one ratio and one credit per factor.

    - `log_ratio`: log rᵢ, ``(N, n)``; ``(N, 1)`` for one joint ratio. `credit`: Cᵢ of the same shape.
    - `clip_range`: ε.
    """
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, 1 - clip_range, 1 + clip_range)
    # The minimum is pessimistic: a ratio that has moved in the wrong direction is never clipped away.
    return -jnp.minimum(ratio * credit, clipped * credit).sum(axis=-1).mean()


def policy_gradient_loss(log_ratio: jax.Array, credit: jax.Array) -> jax.Array:
    """Return −E Σᵢ log rᵢ Cᵢ, whose gradient is the factored policy gradient −E Σᵢ ∇log πᵢ Cᵢ (eq. 8)."""
    # The denominator of rᵢ does not depend on the parameters, so log rᵢ has the gradient of log πᵢ.
    return -(log_ratio * credit).sum(axis=-1).mean()


def joint(log_ratio: jax.Array) -> jax.Array:
    """Return the log-ratio of the joint action, log ∏ᵢ rᵢ, ``(N, n)`` → ``(N, 1)``."""
    return log_ratio.sum(axis=-1, keepdims=True)


def squared_error(values: jax.Array, returns: jax.Array, old_values: jax.Array, clip_range: Any = None) -> jax.Array:
    """Return E (R − v)², where v moves by at most `clip_range` from the old values, as in Stable-Baselines3."""
    if clip_range is not None:
        # Without the maximum with the unclipped error that OpenAI Baselines takes: Stable-Baselines3 has none either.
        values = old_values + jnp.clip(values - old_values, -clip_range, clip_range)
    return ((returns - values) ** 2).mean()


def standardise(credit: jax.Array, acted: jax.Array) -> jax.Array:
    """Return credits with mean 0 and deviation 1 over all samples and factors that acted, and 0 for the others.

    - `credit`: ``(N, n)``, or ``(N, 1)`` for a joint ratio; `acted`: ``(N, n)``, or ``(N, 1)`` if all always act.
    """
    if credit.size == 1:  # the deviation of one sample is not defined, and its credit would become 0
        return credit
    is_joint = credit.shape[-1] < acted.shape[-1]
    acted = jnp.broadcast_to(1.0 if is_joint else acted, credit.shape).astype(credit.dtype)
    count = acted.sum()
    # One common scale for all factors: a scale per factor would change the weights of the objective.
    mean = (credit * acted).sum() / jnp.maximum(count, 1)
    # The unbiased deviation, as Stable-Baselines3 has it within a minibatch.
    variance = (acted * (credit - mean) ** 2).sum() / jnp.maximum(count - 1, 1)
    return acted * (credit - mean) / (jnp.sqrt(variance) + 1e-8)
