"""`AdaptiveNetwork`: the worthwhile edges, re-estimated from the rollouts of training.

An edge i → j is worthwhile if leaving it out would add more squared bias than keeping it adds noise. Both are measured
on each rollout for all pairs, with respect to the last layer of the policy:

    Gᵢⱼ = E[zᵢ λⱼ Aⱼ],    bias²ᵢⱼ = |Gᵢⱼ|²,    noiseᵢⱼ = V[mean of zᵢ λⱼ Aⱼ over a rollout]

If components share parameters, the policy follows the sum of their gradients. Where c components have an edge of the
same kind, such as that from each quote of a market to its own profit, removing all of these edges costs c² bias², and
keeping them costs c noise. An edge is then worthwhile if `copies` = c times its bias² exceeds its noise.

The noise is measured between environments, because the steps of one episode are not independent. Both are averaged over
the last `window` rollouts, during which a policy changes little and over which the optimizer averages gradients as
well.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._arrays import on_device, zeros
from .._checks import Count, NotNegative, checked
from ..structure import BaseNetwork, InfluenceNetwork, KArray
from ..structure.base_network import RolloutView, TrainingSizes
from ..structure.network import as_network
from .diagnostics import Evidence, Scores

LARGEST = 10**7
"""Maximum size of the estimates: pairs times parameters of the last layer."""


@dataclass(frozen=True, eq=False)
class AdaptiveNetwork(BaseNetwork):
    """A network whose edges are re-estimated during training.

    **Arguments**

    - `initial`: the initial network: given, discovered or complete.
    - `every`: number of rollouts between revisions.
    - `window`: number of rollouts over which estimates are averaged, with decaying weights.
    - `margin`: hysteresis. An edge is added if its bias² exceeds 1 + margin times the noise, and removed if it is less
      than 1 / (1 + margin) times the noise; in between it does not change.
    - `copies`: number of components that share parameters and have an edge of the same kind; bias² is multiplied by it.

    A row without a worthwhile edge does not change, since without any edge there would be nothing to learn from.

    >>> from factorax.ppo import FactoredPPO
    >>> from factorax.problems import contextual_bandit
    >>> net = AdaptiveNetwork(InfluenceNetwork.complete(4, 4))
    >>> settings = dict(n_envs=64, n_steps=8, batch_size=128, n_epochs=2, learning_rate=3e-3, hidden=(16,))
    >>> model = FactoredPPO(contextual_bandit(4), net, **settings).learn(512 * 30, progress_bar=False)
    >>> model.network == contextual_bandit(4).network
    True
    """

    initial: InfluenceNetwork
    every: int = 2
    window: int = 10
    margin: float = 8.0
    copies: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "initial", as_network(self.initial, "initial"))
        checked("every", self.every, Count)
        checked("window", self.window, Count)
        checked("margin", self.margin, NotNegative)
        checked("copies", self.copies, Count)

    @classmethod
    def from_complete(cls, like: InfluenceNetwork) -> "AdaptiveNetwork":
        """Return a network that starts with all edges between the actions and targets of another network."""
        like = as_network(like, "like")
        return cls(InfluenceNetwork._derive(np.ones(like.shape, bool), like.actions, like.targets))

    @property
    def static(self) -> InfluenceNetwork:
        """The initial network."""
        return self.initial

    def init_state(self, sizes: TrainingSizes) -> "EdgeEstimates":
        """Return empty estimates."""
        if sizes.grouped:
            raise ValueError(
                "network: got a factored network, want one row per component of the action space for adaptive"
            )
        n, m = self.initial.shape
        width = sizes.score_size
        if n * m * width > LARGEST:
            raise ValueError(
                f"network: adaptive needs {n} × {m} × {width} numbers for its estimates, more than {LARGEST:,}; want "
                "fewer pairs, or smaller hidden layers"
            )
        zero = jnp.float32(0)
        return EdgeEstimates(
            matrix=on_device(self.initial.to_dense(), np.float32),
            gradient=zeros((n, width, m)),
            noise=zeros((n, m)),
            total=zero,
            squares=zero,
            rollouts=jnp.int32(0),
        )

    def for_rollout(self, state: Any, rollout: RolloutView) -> KArray:
        """Return K from earlier rollouts."""
        # Edges chosen with the data they are used on would favour the noise of these data: a bias.
        return KArray(state.matrix)

    def update_state(self, state: Any, evidence: Evidence) -> tuple["EdgeEstimates", dict[str, Any]]:
        """Return the estimates with one more rollout and, at revisions, new edges."""
        gradients = pair_gradients(evidence.scores, evidence.advantage * evidence.weights, evidence.n_envs)
        new = self.revised(state, *gradients)
        changed = jnp.sign(new.matrix) - jnp.sign(state.matrix)
        return new, {"network/edges": (new.matrix > 0).sum(), "network/changed": changed}

    def revised(self, state: "EdgeEstimates", gradients: jax.Array, noise: jax.Array) -> "EdgeEstimates":
        """Return the estimates with Gᵢⱼ ``(n, width, m)`` of one more rollout and its noise ``(n, m)``."""
        keep = 1 - 1 / self.window
        gradient, noise = keep * state.gradient + gradients, keep * state.noise + noise
        total, squares = keep * state.total + 1, keep**2 * state.squares + 1
        rollouts = state.rollouts + 1
        one, share = noise / total, squares / total**2  # of one rollout; the mean has this share of it
        of_mean = one * share
        # The noise of the mean is in its square as well, so it is subtracted.
        bias = self.copies * jnp.maximum(((gradient / total) ** 2).sum(axis=1) - of_mean, 0.0)
        present = state.matrix > 0
        pays = jnp.where(present, bias * (1 + self.margin) > of_mean, bias > (1 + self.margin) * of_mean)
        kept = jnp.where(present, state.matrix, 1.0) * pays  # soft edges keep their weights
        # Without any edge, a factor would have nothing to learn from.
        matrix = jnp.where(pays.any(axis=1, keepdims=True), kept, state.matrix)
        revise = rollouts % self.every == 0
        return EdgeEstimates(
            matrix=jnp.where(revise, matrix, state.matrix),
            gradient=gradient,
            noise=noise,
            total=total,
            squares=squares,
            rollouts=rollouts,
        )

    def present(self, state: Any, timesteps: int) -> InfluenceNetwork:
        """Return the current network."""
        return InfluenceNetwork._derive(np.asarray(state.matrix), self.initial.actions, self.initial.targets)


class EdgeEstimates(NamedTuple):
    """Estimates of all edges from past rollouts, and the resulting network."""

    matrix: jax.Array
    """K, ``(n, m)``."""
    gradient: jax.Array
    """Weighted sum of Gᵢⱼ over rollouts, with decaying weights, ``(n, width, m)``."""
    noise: jax.Array
    """Weighted sum of the noise (trace) of rollouts, ``(n, m)``."""
    total: jax.Array
    """Sum of these weights."""
    squares: jax.Array
    """Sum of their squares."""
    rollouts: jax.Array


def pair_gradients(scores: Scores, advantage: jax.Array, n_envs: int) -> tuple[jax.Array, jax.Array]:
    """Return Gᵢⱼ of each component and target, ``(c, width, m)``, and its noise, ``(c, m)``.

    - `scores`: the scores of N samples, ordered by time, then by environment.
    - `advantage`: λⱼ Aⱼ of each target, ``(N, m)``.
    """
    components, width = scores.outer.shape[1:]
    inner = jnp.concatenate([scores.inner, jnp.ones_like(scores.inner[..., :1])], axis=-1)
    # Scores have mean zero, so a common offset would only add noise.
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
    # One environment at a time: scores of all N samples at once would take N c p numbers.
    (total, squares), _ = jax.lax.scan(add, zero, (by_env(scores.outer), by_env(inner), by_env(centred)))
    mean = total / n_envs
    # Between environments, because the steps of one episode are not independent.
    noise = (squares / n_envs - (mean**2).sum(axis=1)) / max(n_envs - 1, 1)
    return mean, jnp.maximum(noise, 0.0)
