"""`AdaptiveNetwork`: the edges that pay, estimated again and again from what is learnt from anyway.

An edge i → j pays if leaving it out would cost more bias than keeping it costs noise. Both are measured on every
rollout, for all pairs, with respect to the last layer of the policy:

    Gᵢⱼ = E[zᵢ λⱼ Aⱼ],    bias²ᵢⱼ = |Gᵢⱼ|²,    noiseᵢⱼ = V[mean of zᵢ λⱼ Aⱼ over a rollout]

The noise is that between environments, for steps of one episode are not independent. Both are averaged over the last
`window` rollouts, a time in which a policy changes little and an optimiser averages: the gradient that counts has this
many rollouts in it, and so has the estimate.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ..structure import InfluenceNetwork
from .diagnostics import Scores

LARGEST = 10**7
"""Pairs times weights of the last layer: what is kept of them is an array of this size."""


@dataclass(frozen=True, eq=False)
class AdaptiveNetwork:
    """A network that training keeps up to date.

    **Arguments**

    - `start`: where it begins: a network that was given or discovered, or a complete one.
    - `every`: rollouts between two looks at it.
    - `window`: rollouts that the estimates are averaged over, the weight of older ones falling off.
    - `margin`: hysteresis. An edge comes if its bias² is more than 1 + margin times the noise, and goes if it is less
      than 1 / (1 + margin) times; in between it stays as it is.

    A row none of whose edges pays stays as it is: without any there would be nothing to learn from.

    >>> from factorax.learning import FactoredPPO
    >>> from factorax.problems import contextual_bandit
    >>> net = AdaptiveNetwork(InfluenceNetwork.complete(4, 4))
    >>> settings = dict(n_envs=64, n_steps=8, batch_size=128, n_epochs=2, learning_rate=3e-3)
    >>> model = FactoredPPO(contextual_bandit(4), net, **settings).learn(512 * 30, progress_bar=False)
    >>> model.network == contextual_bandit(4).network
    True
    """

    start: InfluenceNetwork
    every: int = 2
    window: int = 10
    margin: float = 8.0

    def __post_init__(self) -> None:
        if not isinstance(self.start, InfluenceNetwork):
            raise TypeError(f"start: got {type(self.start).__name__}, want an InfluenceNetwork")
        if self.every < 1 or self.window < 1 or self.margin < 0:
            raise ValueError(
                f"every, window, margin: got {self.every}, {self.window}, {self.margin}, want at least 1, 1 and 0"
            )

    def init(self, width: int) -> "Evidence":
        """Before anything was seen, for gradients of `width` numbers a factor."""
        n, m = self.start.shape
        if n * m * width > LARGEST:
            raise ValueError(
                f"network: adaptive needs {n} × {m} × {width} numbers for its estimates, more than {LARGEST:,}; want "
                "fewer pairs, or smaller hidden layers"
            )
        matrix = jnp.asarray(self.start.to_dense(), jnp.float32)
        zero = jnp.float32(0)
        return Evidence(matrix, jnp.zeros((n, width, m)), jnp.zeros((n, m)), zero, zero, jnp.int32(0))


class Evidence(NamedTuple):
    """What was seen so far, and the network it led to."""

    weights: jax.Array
    """K, ``(n, m)``."""
    gradient: jax.Array
    """The sum of Gᵢⱼ over rollouts with falling weights, ``(n, width, m)``."""
    noise: jax.Array
    """The same of the noise of a rollout, its trace, ``(n, m)``."""
    total: jax.Array
    """The sum of these weights."""
    squares: jax.Array
    """And of their squares."""
    rollouts: jax.Array


def seen(rule: AdaptiveNetwork, evidence: Evidence, gradients: jax.Array, noise: jax.Array) -> Evidence:
    """With one more rollout: Gᵢⱼ ``(n, width, m)`` and its noise ``(n, m)``; every so often with another network."""
    keep = 1 - 1 / rule.window
    gradient, noise = keep * evidence.gradient + gradients, keep * evidence.noise + noise
    total, squares = keep * evidence.total + 1, keep**2 * evidence.squares + 1
    rollouts = evidence.rollouts + 1
    one, share = noise / total, squares / total**2  # of one rollout; that of the mean is this share of it
    of_mean = one * share
    bias = jnp.maximum(((gradient / total) ** 2).sum(axis=1) - of_mean, 0.0)
    present = evidence.weights > 0
    pays = jnp.where(present, bias * (1 + rule.margin) > of_mean, bias > (1 + rule.margin) * of_mean)
    kept = jnp.where(present, evidence.weights, 1.0) * pays
    found = jnp.where(pays.any(axis=1, keepdims=True), kept, evidence.weights)
    look = rollouts % rule.every == 0
    return Evidence(jnp.where(look, found, evidence.weights), gradient, noise, total, squares, rollouts)


def pair_gradients(scores: Scores, advantage: jax.Array, n_envs: int) -> tuple[jax.Array, jax.Array]:
    """Gᵢⱼ of every component and target, ``(c, width, m)``, and the noise of it, ``(c, m)``.

    - `scores`: of N samples, environments behind time.
    - `advantage`: λⱼ Aⱼ of every target, ``(N, m)``.
    """
    components, width = scores.outer.shape[1:]
    inner = jnp.concatenate([scores.inner, jnp.ones_like(scores.inner[..., :1])], axis=-1)
    centred = advantage - advantage.mean(axis=0)

    def by_env(x: jax.Array) -> jax.Array:
        return jnp.moveaxis(x.reshape(-1, n_envs, *x.shape[1:]), 1, 0)

    def add(carry: tuple[jax.Array, jax.Array], env: tuple[jax.Array, ...]) -> tuple[tuple[jax.Array, jax.Array], None]:
        total, squares = carry
        outer, inner, psi = env
        z = (outer[..., None] * inner[:, :, None]).reshape(len(outer), components, -1)
        mean = jnp.einsum("tcp,tj->cpj", z, psi) / len(z)
        return (total + mean, squares + (mean**2).sum(axis=1)), None

    size = components, width * inner.shape[-1], advantage.shape[1]
    zero = jnp.zeros(size), jnp.zeros((size[0], size[2]))
    (total, squares), _ = jax.lax.scan(add, zero, (by_env(scores.outer), by_env(inner), by_env(centred)))
    mean = total / n_envs
    noise = (squares / n_envs - (mean**2).sum(axis=1)) / max(n_envs - 1, 1)
    return mean, jnp.maximum(noise, 0.0)
