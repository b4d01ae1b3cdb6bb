"""Everything that changes in training, and its values before the first update."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_number
from ..spec import Spec
from ..structure.base_network import TrainingSizes
from .config import Config, Hyper
from .missing_edges import MissingEdges
from .policies import Agent, Critic, Policy, make_network


class RunningMoments(NamedTuple):
    """Count, mean and variance of all samples so far."""

    size: jax.Array
    mean: jax.Array
    variance: jax.Array

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> "RunningMoments":
        """No samples yet: mean 0, variance 1."""
        return cls(jnp.float32(1e-4), jnp.zeros(shape), jnp.ones(shape))

    def updated(self, x: jax.Array) -> "RunningMoments":
        """With more samples, along all axes in front of the shape (Chan et al., 1983)."""
        axes = tuple(range(x.ndim - self.mean.ndim))
        new = float(np.prod([x.shape[axis] for axis in axes]))
        mean, variance = x.mean(axis=axes), x.var(axis=axes)
        total = self.size + new
        apart = mean - self.mean
        both = self.variance * self.size + variance * new + apart**2 * self.size * new / total
        return RunningMoments(total, self.mean + apart * new / total, both / total)

    def normalise(self, x: jax.Array, clip: float = 10.0) -> jax.Array:
        """Centred, scaled and clipped."""
        return jnp.clip((x - self.mean) / jnp.sqrt(self.variance + 1e-8), -clip, clip)


class TrainState(NamedTuple):
    """Everything that changes in training: a pytree of arrays, ready to be saved."""

    agent: Agent
    optimiser: Any
    kl_coef: jax.Array
    obs: RunningMoments
    """Of observations."""
    reward: RunningMoments
    """Of discounted returns."""
    discounted: jax.Array
    """The discounted return of every episode so far, ``(B,)``."""
    environments: Any
    """State of the environments of a JAX problem; None for others, which keep their own."""
    key: jax.Array
    timesteps: jax.Array
    hyper: Hyper
    """Settings that may differ between states of one compiled program."""
    network: Any
    """State of the network (`BaseNetwork.init_state`); None for most."""
    missing_edges: MissingEdges | None
    """The test for edges that the network lacks; None if there is no test."""


def initial_state(
    spec: Spec, config: Config, *, key: jax.Array, environments: Any, optimiser: Any, hyper: Mapping[str, Any]
) -> TrainState:
    """The state before the first update.

    - `key`: split into keys for the policy, the critic, and training.
    - `environments`: from a key to the state of the environments.
    - `optimiser`: an Optax transformation.
    - `hyper`: settings by the names of `Hyper` that replace those of `config`.
    """
    unknown = hyper.keys() - set(Hyper._fields)
    if unknown:
        raise ValueError(
            f"hyper: got {', '.join(sorted(unknown))}, want some of {', '.join(Hyper._fields)}: the others shape "
            "the program, so give them to Config"
        )
    for name, value in hyper.items():
        check_number(name, value, float)
    key, for_policy, for_critic, for_environments = jax.random.split(key, 4)
    agent = _agent(spec, config, for_policy, for_critic)
    obs = jnp.zeros((1, spec.n_inputs))
    local = None if config.policy == "joint" else spec.see(obs, jnp)
    features = 1 + jax.eval_shape(agent.policy.net.features, obs, local).shape[-1]
    sizes = TrainingSizes(
        n_components=len(spec.components),
        n_factors=spec.n_factors,
        n_targets=spec.n_targets,
        score_size=spec.components.width * features,
        grouped=spec.factors is not None,
    )
    tested = spec.network.is_fixed and spec.network.static.density < 1
    tested = tested and config.check_network and config.estimator == "factored"
    return TrainState(
        agent=agent,
        optimiser=optimiser.init(eqx.filter(agent, eqx.is_array)),
        kl_coef=jnp.float32(config.kl_coef or (0.2 if config.kl_coef_target is not None else 0.0)),
        obs=RunningMoments.of((spec.n_inputs,)),
        reward=RunningMoments.of(()),
        discounted=jnp.zeros(config.n_envs),
        environments=environments(for_environments),
        key=key,
        timesteps=jnp.int32(0),
        hyper=jax.tree.map(jnp.float32, config.hyper._replace(**hyper)),
        network=spec.network.init_state(sizes),
        missing_edges=MissingEdges.start(len(spec.components), features, spec.n_targets) if tested else None,
    )


def _agent(spec: Spec, config: Config, for_policy: jax.Array, for_critic: jax.Array) -> Agent:
    """A policy and a critic of the shapes that settings and network want, randomly initialised."""
    c, width = config, spec.components.width
    inputs = spec.n_inputs if c.policy == "joint" else spec.see(jnp.zeros(spec.n_inputs), jnp).shape[-1]
    options: dict[str, Any] = {"hidden": c.hidden, "identity": c.identity}
    net = make_network(c.policy, for_policy, inputs=inputs, shape=(len(spec.components), width), gain=0.01, **options)
    policy = Policy(net, spec.components.spread(c.initial_log_std))
    if c.critic == "none":
        return Agent(policy, None)
    kind, values = "joint", spec.n_factors
    if c.critic == "target":
        values = spec.n_targets + (spec.network.n_factor_values if c.estimator == "factored" else 0)
    elif c.estimator == "vanilla":
        values = 1
    elif spec.factors is None:
        kind = c.policy
    critic_inputs = spec.n_inputs if kind == "joint" else inputs
    critic = make_network(kind, for_critic, inputs=critic_inputs, shape=(values, 1), gain=1.0, **options)
    return Agent(policy, Critic(critic))
