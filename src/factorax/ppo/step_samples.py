"""Minibatches of steps, with few operations on a GPU: samples in one array, policy and critic as one network.

Small minibatches are bound by the launch of kernels there. On a CPU it is the arithmetic that counts, and both would
only copy.
"""

from dataclasses import dataclass
from typing import cast

import jax

from ..distributions import Spread
from ..networks.policies import Agent
from .advantages import Samples, packed
from .devices import saves_launches
from .twin_networks import Twins, apart, together
from .update import Minibatches, Update

LARGEST = 2**26
"""Maximum size of one array of all samples. Beyond it, the copy costs more than the launches that it saves."""


@dataclass(frozen=True, eq=False)
class StepUpdate(Update):
    """An update with minibatches of environment steps, each with the actions of all factors."""

    def for_minibatches(self, agent: Agent, samples: Samples) -> Minibatches:
        """Return samples as they are, or as rows of one array, and the losses of one or two networks."""
        if self.recurrent(agent) or not saves_kernels(self):
            return super().for_minibatches(agent, samples)
        have_twins = Twins.can_stand_for(agent) and self.spec.factors is None
        if have_twins and samples.local is not None and agent.policy.mask is None:
            samples = samples._replace(obs=samples.obs[:, :0])  # nothing uses the full observation
        minibatches = super().for_minibatches(agent, samples)
        if sum(x.size for x in jax.tree.leaves(samples)) <= LARGEST:
            minibatches = minibatches._replace(take=packed(samples))
        if not have_twins:
            return minibatches
        rule = TwinUpdate(self.spec, self.config, self.devices, self.see, twins_of=agent)
        return minibatches._replace(loss=rule.loss, enter=together, leave=apart)


def saves_kernels(rule: Update) -> bool:
    """Return whether the update runs on a device on which fewer, larger operations are faster."""
    return saves_launches(rule.config, rule.devices)


@dataclass(frozen=True, eq=False)
class TwinUpdate(Update):
    """The losses of an agent whose networks are replaced by `Twins`."""

    twins_of: Agent | None = None

    def evaluated(self, agent: Agent, samples: Samples, length: int) -> tuple[tuple[jax.Array, Spread], jax.Array]:
        """Return the output of the policy ``(N, c, width)``, and the critic's predictions ``(N, n)``."""
        policy, twins = cast(Agent, self.twins_of).policy, cast(Twins, agent)
        inputs = policy.net.encoder.inputs(samples.obs, samples.local, len(policy.net.identity))
        outputs = twins(inputs.reshape(-1, inputs.shape[-1]), policy.net.net.activation)
        outputs = outputs.reshape(2, *inputs.shape[:-1], -1)
        parameters = policy.masked(outputs[0, ..., : self.components.width], samples.obs)
        spread = twins.spread if policy.learns_spread else jax.lax.stop_gradient(twins.spread)
        return (parameters, spread), outputs[1, ..., 0]
