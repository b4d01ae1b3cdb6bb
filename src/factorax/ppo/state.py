"""The training state, and its initial values."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._arrays import ones, zeros, zeros_of
from ..networks.make import policy_features
from ..networks.policies import Agent
from ..spec import Spec
from ..structure.base_network import TrainingSizes
from .agents import OwnModules, make_agent
from .config import Config, Hyper, check_hyper
from .missing_edges import MissingEdges


class RunningMoments(NamedTuple):
    """Count, mean and variance of all samples so far."""

    size: jax.Array
    mean: jax.Array
    variance: jax.Array

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> "RunningMoments":
        """Return the moments of no samples: mean 0, variance 1."""
        return cls(jnp.float32(1e-4), zeros(shape), ones(shape))

    def updated(self, x: jax.Array) -> "RunningMoments":
        """Return the moments with more samples, along all axes in front of the shape (Chan et al., 1983)."""
        axes = tuple(range(x.ndim - self.mean.ndim))
        new = float(np.prod([x.shape[axis] for axis in axes]))
        mean, variance = x.mean(axis=axes), x.var(axis=axes)
        total = self.size + new
        apart = mean - self.mean
        both = self.variance * self.size + variance * new + apart**2 * self.size * new / total
        return RunningMoments(total, self.mean + apart * new / total, both / total)

    def normalise(self, x: jax.Array) -> jax.Array:
        """Return x centred, scaled and clipped to ±10."""
        return jnp.clip((x - self.mean) / jnp.sqrt(self.variance + 1e-8), -10.0, 10.0)

    def normalised(self, rows: jax.Array, measured: np.ndarray | None) -> jax.Array:
        """Return rows of observations with only the measured columns normalised; all columns if `measured` is None."""
        return self.normalise(rows) if measured is None else jnp.where(measured, self.normalise(rows), rows)


class TrainState(NamedTuple):
    """Everything that changes during training: a pytree of arrays that can be saved."""

    agent: Agent
    optimiser: Any
    kl_coef: jax.Array
    obs: RunningMoments
    """Running moments of observations."""
    reward: RunningMoments
    """Running moments of discounted returns."""
    discounted: jax.Array
    """The discounted return so far of each episode, ``(B,)``."""
    environments: Any
    """State of the environments of a JAX problem; None for others, which store their own."""
    key: jax.Array
    timesteps: jax.Array
    hyper: Hyper
    """Settings that may differ between states of one compiled program."""
    network: Any
    """State of the network (`BaseNetwork.init_state`); None for most."""
    missing_edges: MissingEdges | None
    """Sums of the missing-edge test; None if there is no test."""
    critic_memory: jax.Array | None = None
    """Memory of a recurrent critic for each episode, ``(B, h)``; None if it has no memory of its own."""


def initial_state(
    spec: Spec,
    config: Config,
    own: OwnModules,
    *,
    key: jax.Array,
    environments: Any,
    optimiser: Any,
    hyper: Mapping[str, Any],
) -> TrainState:
    """Return the state before the first update.

    - `own`: the user's own networks.
    - `key`: split into keys for the policy, the critic, and training.
    - `environments`: maps a key to the state of the environments.
    - `optimiser`: an Optax transformation whose state consists of zeros at first, as that of Adam.
    - `hyper`: settings by the names of `Hyper` that override those of `config`.
    """
    unknown = hyper.keys() - set(Hyper._fields)
    if unknown:
        raise ValueError(
            f"hyper: got {', '.join(sorted(unknown))}, want some of {', '.join(Hyper._fields)}; pass other settings to "
            "Config, since they change the program"
        )
    for name, value in hyper.items():
        check_hyper(name, value)
    key, for_policy, for_critic, for_environments = jax.random.split(key, 4)
    agent = make_agent(spec, config, own, for_policy, for_critic)
    features = 1 + policy_features(spec, agent.policy).shape[-1]
    sizes = TrainingSizes(
        n_components=len(spec.components),
        n_factors=spec.n_factors,
        n_targets=spec.n_targets,
        score_size=spec.components.width * features,
        grouped=spec.factors is not None,
    )
    tested = spec.network.is_fixed and spec.network.static.density < 1
    tested = tested and config.check_network and config.estimator == "factored"
    remembers = agent.critic.memory if agent.critic is not None else 0
    return TrainState(
        agent=agent,
        optimiser=zeros_of(optimiser.init, eqx.filter(agent, eqx.is_inexact_array)),
        kl_coef=jnp.float32(config.kl_coef or (0.2 if config.kl_coef_target is not None else 0.0)),
        obs=RunningMoments.of((spec.n_inputs,)),
        reward=RunningMoments.of(()),
        discounted=zeros(config.n_envs),
        environments=environments(for_environments),
        key=key,
        timesteps=jnp.int32(0),
        hyper=jax.tree.map(jnp.float32, config.hyper._replace(**hyper)),
        network=spec.network.init_state(sizes),
        missing_edges=MissingEdges.start(len(spec.components), features, spec.n_targets) if tested else None,
        critic_memory=zeros((config.n_envs, remembers)) if remembers else None,
    )
