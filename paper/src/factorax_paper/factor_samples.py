"""Samples of single factors: the action of one factor in one step is one sample.

This is how multi-agent trainers learn a policy shared by agents: a rollout of N steps and n factors has N n samples,

    L = −E_(t, i) min(rᵢ Cᵢ, clip(rᵢ, 1 ± ε) Cᵢ),

and a minibatch mixes steps and factors. In such `Samples`, `obs` is the input of the factor's network, ``(N n, l)``,
`local` the factor's number, ``(N n,)``, and everything else has one factor, ``(N n, 1)``.
"""

from typing import Any

import jax
import jax.numpy as jnp

from factorax.distributions import Product, Spread
from factorax.networks import Agent
from factorax.networks.arrangements import Shared
from factorax.ppo.config import Config
from factorax.ppo.method import Outputs, Samples
from factorax.spec import Spec


def check_factors(spec: Spec, config: Config, *networks: Any) -> None:
    """Raise ValueError unless a sample of one factor has all that policy and critic, `networks`, and the loss need."""
    of = spec.components
    alike = all(len(set(values)) == 1 for values in (of.kinds, of.choices, of.low, of.high))
    shared = all(each is not None and type(each.net) is Shared for each in networks)
    # target_kl limits the divergence of the joint action.
    if not (alike and shared) or spec.factors is not None or spec.action_mask is not None or config.target_kl:
        raise ValueError(
            "method: got minibatch_of=factors, want minibatch_of=steps, or policy='shared', critic='factor', "
            "architecture='mlp', no target_kl, and one action of the same kind and bounds per factor, without a mask"
        )


def split(agent: Agent, samples: Samples) -> Samples:
    """Return one sample for each factor of each sample of steps."""
    count, n = samples.log_prob.shape
    numbers = jnp.tile(jnp.arange(n), count)
    inputs = agent.policy.net.encoder.inputs(samples.obs, samples.local, n)
    samples = samples._replace(obs=inputs, local=None, acted=jnp.broadcast_to(samples.acted, (count, n)))
    single = jax.tree.map(lambda x: x.reshape(count * n, 1, *x.shape[2:]), samples)
    return single._replace(obs=single.obs[:, 0], local=numbers)


def evaluate(agent: Agent, samples: Samples) -> Outputs:
    """Return the outputs of policy, ``(N, 1, width)``, and critic, ``(N, 1)``, for samples of single factors."""
    policy, critic, number = agent.policy, agent.critic, samples.local
    out = policy.net.of_components(samples.obs, number)[:, None], spread_of(policy.usable_spread, number)
    return out, critic.net.of_components(samples.obs, number)  # type: ignore[union-attr]


def spread_of(spread: Spread, number: Any) -> Spread:
    """Return the spread of the factor of each sample, ``(N, 1)``, unless all factors share it."""
    return spread if len(spread.log_std) == 1 else spread._replace(log_std=spread.log_std[number][:, None])


def one_of(components: Product) -> Product:
    """Return the distribution of one component, where all are alike."""
    first: dict[str, Any] = {name: getattr(components, name)[:1] for name in ("kinds", "choices", "low", "high")}
    return Product(**first, settings=components.settings)
