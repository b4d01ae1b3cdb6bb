"""Generalised advantage estimation for each target, and returns from a later step on."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import Share, check_number, real_array
from .config import Config


class TrainingBatch(NamedTuple):
    """A rollout in the form used by the update, with time and environments first: ``[T, B, ...]``."""

    obs: jax.Array
    local: jax.Array | None
    """Local observations of the components, ``[T, B, c, l]``."""
    action: jax.Array
    """Raw actions, ``[T, B, c]``."""
    psi: jax.Array
    """The targets, ``[T, B, m]``."""
    next_obs: jax.Array
    """The next observation; at the end of an episode, its last observation."""
    terminated: jax.Array
    """``[T, B]``"""
    truncated: jax.Array
    factor_mask: jax.Array | None = None
    """``[T, B, n]``"""
    target_terminated: jax.Array | None = None
    """``[T, B, m]``"""
    log_prob: jax.Array | None = None
    """Log-probability of each component under the acting policy, ``[T, B, c]``; None if that is the agent's."""
    memory: jax.Array | None = None
    """Memory of a recurrent policy before it acted, ``[T, B, h]``."""
    critic_memory: jax.Array | None = None
    """Memory of a recurrent critic before each step, ``[T, B, h]``; None if it has no memory of its own."""
    next_action: jax.Array | None = None
    """The policy's actions at `next_obs`, ``[T, B, c]``, for a critic of actions; None for others."""


class Samples(NamedTuple):
    """The samples from which minibatches are drawn, with one axis of samples first."""

    obs: jax.Array
    local: jax.Array | None
    action: jax.Array
    log_prob: jax.Array
    """Log-probability of each factor under the acting policy, ``(N, n)``."""
    parameters: jax.Array
    """Parameters of that policy's distributions, ``(N, c, width)``."""
    credit: jax.Array
    """``(N, n)``; ``(N, 1)`` for vanilla."""
    value: jax.Array
    returns: jax.Array
    """Both ``(N, m)``."""
    factor_mask: jax.Array | None
    memory: jax.Array | None = None
    critic_memory: jax.Array | None = None
    """Memory before each step, ``(N, h)``, if networks are recurrent."""
    starts: jax.Array | None = None
    """Whether an episode starts with this step, ``(N,)``, if networks are recurrent."""
    component: jax.Array | None = None
    """The component of each sample, ``(N,)``, if a sample has only one (`factor_samples`)."""


def packed(samples: Samples) -> Callable[[jax.Array], Samples]:
    """Return a function from indices of samples to a minibatch: all arrays are columns of one, so that one gather
    suffices.

    Integers and booleans are exact as floats.
    """
    leaves, structure = jax.tree.flatten(samples)
    rows = jnp.concatenate([x.reshape(len(x), -1).astype(jnp.float32) for x in leaves], axis=1)
    ends = np.cumsum([0, *(x.size // len(x) for x in leaves)])

    def take(indices: jax.Array) -> Samples:
        columns = rows[indices]
        parts = [
            columns[:, first:last].reshape(len(indices), *x.shape[1:]).astype(x.dtype)
            for x, first, last in zip(leaves, ends[:-1], ends[1:], strict=True)
        ]
        return jax.tree.unflatten(structure, parts)

    return take


def ends(batch: TrainingBatch, config: Config) -> tuple[jax.Array, jax.Array]:
    """Return where targets terminate, ``[T, B, m]`` or ``[T, B, 1]``, and where episodes, or the fragments of length
    `gae_steps`, end, ``[T, B, 1]``.

    The setting `bootstrap` defines whether an ended episode has a future: ``"auto"``: according to its flags;
    ``"never"``; ``"always"``.
    """
    terminated, truncated = batch.terminated[..., None], batch.truncated[..., None]
    ended = terminated | truncated
    if batch.target_terminated is not None:
        terminated = terminated | batch.target_terminated
    if config.bootstrap == "never":
        terminated = terminated | ended
    elif config.bootstrap == "always":
        terminated = jnp.zeros_like(terminated)
    if config.gae_steps is not None:
        ended = ended | (jnp.arange(1, len(ended) + 1) % config.gae_steps == 0)[:, None, None]
    return terminated, ended


def starts(batch: TrainingBatch) -> jax.Array:
    """Return whether an episode starts with a step, ``[T, B]``, except for the first step of a rollout."""
    ended = batch.terminated | batch.truncated
    return jnp.concatenate([jnp.zeros_like(ended[:1]), ended[:-1]])


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
    """
    psi = real_array("psi", psi, jnp, finite=False)
    values, next_values = (
        real_array(n, x, jnp, finite=False) for n, x in (("values", values), ("next_values", next_values))
    )
    check_number("gamma", gamma, Share)
    check_number("trace", trace, Share)
    if psi.ndim == 0:
        raise ValueError(f"psi: got {psi}, want (time, ...)")
    if not psi.shape == values.shape == next_values.shape:
        raise ValueError(
            f"values, next_values: got shapes {values.shape} and {next_values.shape}, want the shape of psi, "
            f"{psi.shape}"
        )
    for name, flags in (("terminated", terminated), ("ended", ended)):
        _check_flags(name, flags, psi.shape)
    continues = 1.0 - jnp.asarray(terminated, psi.dtype)
    delta = psi + gamma * continues * next_values - values
    # A terminated target passes no advantage back, even if its episode continues.
    decay = gamma * trace * continues * (1.0 - jnp.asarray(ended, psi.dtype))
    decay = jnp.broadcast_to(decay, delta.shape)

    def back(after: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        advantage = now[0] + now[1] * after
        return advantage, advantage

    _, advantages = jax.lax.scan(back, jnp.zeros_like(delta[0]), (delta, decay), reverse=True)
    return advantages, advantages + values


def _check_flags(name: str, flags: Any, shape: tuple[int, ...]) -> None:
    """Raise unless flags are 0 or 1, and can be broadcast to a shape with the same time axis."""
    array = real_array(name, flags, jnp)
    fits = array.ndim <= len(shape) and all(a in (1, b) for a, b in zip(array.shape[::-1], shape[::-1], strict=False))
    if not fits:
        raise ValueError(f"{name}: got shape {array.shape}, want a shape that broadcasts to that of psi, {shape}")


class Estimates(NamedTuple):
    """Estimates for each target of a rollout, all ``[T, B, m]`` unless stated otherwise."""

    advantage: jax.Array
    value: jax.Array
    """v(s_t), the prediction of the critic."""
    returns: jax.Array
    """v + advantage."""
    next_value: jax.Array
    """Value of the next observation."""
    terminated: jax.Array
    """``[T, B, m]`` or ``[T, B, 1]``."""
    ended: jax.Array
    """Terminated or truncated, ``[T, B, 1]``."""
    gamma: Any
    factor_value: jax.Array | None = None
    """Additional predictions of the critic for the network (`BaseNetwork.n_factor_values`), ``[T, B, n]``."""

    def returns_from(self, lags: Iterable[int]) -> Iterator[jax.Array]:
        """Yield γ^ℓ R(t + ℓ) for each lag ℓ, in increasing order: the part of the return that comes ℓ or more steps
        later.

        If the episode or the rollout ends before t + ℓ, the value of its last observation replaces later rewards.

        >>> whole, zeros = jnp.array([[7.0], [6.0], [4.0]]), jnp.zeros((3, 1))
        >>> ended = jnp.array([[False], [False], [True]])
        >>> estimates = Estimates(whole, zeros, whole, zeros, terminated=ended, ended=ended, gamma=1.0)
        >>> [x[:, 0].tolist() for x in estimates.returns_from([0, 2])]
        [[7.0, 6.0, 4.0], [4.0, 0.0, 0.0]]
        """
        continues = 1.0 - jnp.asarray(self.terminated, jnp.float32)
        after = self.gamma * continues * self.next_value
        ended = jnp.broadcast_to(self.ended, after.shape)

        def shift(later: jax.Array, _: None) -> tuple[jax.Array, None]:
            """Map γ^ℓ R(t + ℓ) to γ^(ℓ+1) R(t + ℓ + 1); where that lies beyond an end, the value there."""
            shifted = (self.gamma * continues)[:-1] * later[1:]
            return jnp.concatenate([jnp.where(ended[:-1], after[:-1], shifted), after[-1:]]), None

        later, reached = self.returns, 0
        for lag in lags:
            if lag > reached:
                later, _ = jax.lax.scan(shift, later, length=lag - reached)
                reached = lag
            yield later
