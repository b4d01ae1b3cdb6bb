"""Minibatches of single factors: the action of one factor in one step is one sample.

This is how multi-agent trainers learn a policy shared by agents: a rollout of N steps and n factors has N n samples,

    L = E_(t, i) min(rᵢ Cᵢ, clip(rᵢ, 1 ± ε) Cᵢ),

and a minibatch mixes steps and factors. With ``minibatch_of="steps"`` a minibatch has all factors of its steps.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..distributions import Product, Spread
from ..networks.policies import Agent
from .advantages import Samples, packed
from .twin_networks import Twins, apart, together
from .update import Minibatches, Update


@dataclass(frozen=True, eq=False)
class FactorUpdate(Update):
    """An update with minibatches of single factors."""

    def __post_init__(self) -> None:
        super().__post_init__()
        spec, c = self.spec, self.config
        components, n = spec.components, spec.n_factors
        if spec.factors is not None:
            raise ValueError("minibatch_of: got 'factors' with factors of several actions, want 'steps'")
        if spec.action_mask is not None:
            raise ValueError("minibatch_of: got 'factors' with an action_mask, want 'steps'")
        if len(set(components.kinds)) > 1 or len(set(components.choices.tolist())) > 1:
            raise ValueError("minibatch_of: got 'factors' with actions of several kinds, want 'steps'")
        size = c.rollout_steps * n
        if size < c.batch_size or (size % c.batch_size and c.shuffle == "epoch"):
            raise ValueError(
                f"batch_size: got {c.batch_size} with minibatch_of='factors', want a divisor of n_envs × n_steps × "
                f"{n} factors = {size}, or any smaller size with shuffle='rollout'"
            )

    def for_minibatches(self, agent: Agent, samples: Samples) -> Minibatches:
        """Return one sample per step and factor."""
        split = _split(self.spec.n_factors, agent, samples)
        take, size = packed(split), len(split.action)
        if Twins.can_stand_for(agent):
            rule = _SingleFactors(self.spec, self.config, self.devices, twins_of=agent)
            return Minibatches(size, take, rule.loss, together, apart)
        return Minibatches(size, take, _SingleFactors(self.spec, self.config, self.devices).loss)


def _split(n: int, agent: Agent, samples: Samples) -> Samples:
    """Return one sample for each of n factors of each sample; `obs` is the factor's observation."""
    inputs = agent.policy.net.encoder.inputs(samples.obs, samples.local, n)
    zeros = jnp.zeros_like(samples.credit)
    has_critic = agent.critic is not None
    by_factor = {
        "action": samples.action,
        "log_prob": samples.log_prob,
        "credit": samples.credit,
        "value": samples.value if has_critic else zeros,
        "returns": samples.returns if has_critic else zeros,
    }
    split: dict[str, Any] = {name: x.reshape(-1, 1) for name, x in by_factor.items()}
    return Samples(
        obs=inputs.reshape(-1, inputs.shape[-1]),
        local=None,
        parameters=samples.parameters.reshape(-1, 1, samples.parameters.shape[-1]),
        factor_mask=None if samples.factor_mask is None else samples.factor_mask.reshape(-1, 1),
        component=jnp.tile(jnp.arange(n), len(samples.action)),
        **split,
    )


@dataclass(frozen=True, eq=False)
class _SingleFactors(Update):
    """The losses of samples of single factors; `Samples.obs` is the factor's observation."""

    twins_of: Agent | None = None
    """The agent whose networks are replaced by `Twins` in the losses, if any."""

    @cached_property
    def components(self) -> Product:
        """The distribution of one component."""
        of = self.spec.components
        first: dict[str, np.ndarray] = {name: getattr(of, name)[:1] for name in ("choices", "low", "high")}
        return Product(kinds=of.kinds[:1], **first, settings=of.settings)

    def evaluated(self, agent: Agent, samples: Samples, length: int) -> tuple[tuple[jax.Array, Spread], jax.Array]:
        """Return the output of the policy ``(N, 1, width)``, and the critic's predictions ``(N, 1)``."""
        inputs, component = samples.obs, samples.component
        if self.twins_of is not None:
            policy, twins = self.twins_of.policy, cast(Twins, agent)
            outputs = twins(inputs, policy.net.net.activation)
            spread = twins.spread if policy.learns_spread else jax.lax.stop_gradient(twins.spread)
            return (outputs[0][:, None, : self.components.width], _spread_of(spread, component)), outputs[1][:, :1]
        net = agent.policy.net
        parameters = net.of_components(inputs, component)[:, None, :]
        out = parameters, _spread_of(agent.policy.usable_spread, component)
        if agent.critic is None:
            return out, jnp.zeros_like(samples.value)
        return out, agent.critic.net.of_components(inputs, component)

    def divergence(self, samples: Samples, old: Spread, out: tuple[jax.Array, Spread]) -> jax.Array:
        """Return KL(old ‖ new) of each sample, ``(N, 1)``."""
        return super().divergence(samples, _spread_of(old, samples.component), out)


def _spread_of(spread: Spread, component: Any) -> Spread:
    """Return the spread of the component of each sample, ``(N, 1)``, unless it is shared by all."""
    if len(spread.log_std) == 1:
        return spread
    return spread._replace(log_std=spread.log_std[component][:, None])
