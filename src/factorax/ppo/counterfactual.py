"""Updates with a critic of counterfactual actions: COMA and difference rewards.

COMA (Foerster et al., 2018) learns Q of a factor's actions given those of all others, and credits a factor with

    Cᵢ = Qᵢ(s, a) − Σ_b πᵢ(b|s) Qᵢ(s, (b, a₋ᵢ)).

Difference rewards (Wolpert and Tumer, 2002; Dr.Reinforce, Castellini et al., 2021) learn the reward Rᵢ(s, a) instead,
and credit a factor with its return minus the reward of a default action, or the mean reward under its policy:

    Cᵢ = Σ_l γˡ rᵢ,ₜ₊ₗ − Rᵢ(s, (default, a₋ᵢ)).

The reward of factor i is [K(λ∘ψ)]ᵢ, which is the total reward if K is complete, as in both publications.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._credit import credit
from ..distributions import Spread
from ..networks.factor_actions import FactorActions, default_actions, encoded_actions
from ..networks.policies import Agent
from ..spec import Spec
from ..structure import InfluenceNetwork
from .advantages import Estimates, Samples, TrainingBatch, ends, gae
from .config import Config, Hyper
from .devices import shard_minibatch
from .epochs import fixed_minibatches, run_epochs, shuffled
from .update import Update


def check_critic(spec: Spec, config: Config) -> None:
    """Raise ValueError if a critic is incompatible with the actions or the network of a problem."""
    if config.critic == "reward" and config.default_action:
        default_actions(spec, config.default_action)
    elif config.is_counterfactual:
        FactorActions.of(spec)
    if config.critic != "central" or config.estimator == "vanilla":
        return
    net = spec.network
    if not isinstance(net, InfluenceNetwork) or (net.to_dense() != 1).any():
        raise ValueError(
            f"critic: got 'central', one value of the whole objective, with {net!r}, which credits factors with parts "
            "of it; want network='complete', or critic='target' or 'factor'"
        )


@dataclass(frozen=True, eq=False)
class CounterfactualUpdate(Update):
    """An update with a critic of actions, for ``critic="q"`` and ``critic="reward"``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_critic(self.spec, self.config)

    @cached_property
    def actions(self) -> FactorActions:
        """All actions of every factor."""
        return FactorActions.of(self.spec)

    def values_of(self, agent: Agent, obs: jax.Array, local: Any, action: jax.Array) -> jax.Array:
        """Return the critic's value of each factor's action given the others, ``(..., n)``, for raw actions ``(...,
        c)``."""
        if self.config.default_action:
            assert agent.critic is not None
            encoded = encoded_actions(self.spec, action)
            return agent.critic.net(obs, local, encoded, own=encoded)[..., 0]
        values, _ = self.values_of_all(agent, obs, local, action)
        return jnp.take_along_axis(values, self.actions.number(action)[..., None], axis=-1)[..., 0]

    def values_of_all(self, agent: Agent, obs: jax.Array, local: Any, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the critic's values of all actions of each factor given the others, and their probabilities,
        ``(..., n, B)``."""
        assert agent.critic is not None
        probabilities = jax.lax.stop_gradient(self.actions.probabilities(*agent.policy(obs, local)))
        encoded = encoded_actions(self.spec, action)
        return agent.critic.net(obs, local, encoded, probabilities=probabilities), probabilities

    def instead(self, agent: Agent, obs: jax.Array, local: Any, action: jax.Array) -> jax.Array:
        """Return the counterfactual value of each factor, ``(..., n)``: of its default action, or the mean under its
        policy.

        It does not depend on the factor's own action.
        """
        if self.config.default_action:
            assert agent.critic is not None
            default = default_actions(self.spec, self.config.default_action)
            default_encoded = encoded_actions(self.spec, jnp.broadcast_to(default, action.shape), raw=False)
            return agent.critic.net(obs, local, encoded_actions(self.spec, action), own=default_encoded)[..., 0]
        values, probabilities = self.values_of_all(agent, obs, local, action)
        return (probabilities * values).sum(axis=-1)

    def evaluated(self, agent: Agent, samples: Samples, length: int) -> tuple[tuple[jax.Array, Spread], jax.Array]:
        """Return the output of the policy, and the critic's values of the actions of samples, ``(N, n)``."""
        return self.outputs(agent.policy, samples, length), self.values_of(
            agent, samples.obs, samples.local, samples.action
        )

    def estimates(self, agent: Agent, batch: TrainingBatch, k: Any, hyper: Hyper) -> Estimates:
        """Return the counterfactual credit of each factor as its advantage, and the regression targets of the
        critic."""
        if agent.critic is None:  # only the returns of targets are needed
            return super().estimates(agent, batch, k, hyper)
        c = self.config
        terminated, ended = ends(batch, c)
        if terminated.shape[-1] != 1:
            terminated = credit(k, (~terminated).astype(jnp.float32)) == 0
        reward = credit(k, batch.psi, self.spec.weights)
        value = self.values_of(agent, batch.obs, batch.local, batch.action)
        instead = self.instead(agent, batch.obs, batch.local, batch.action)
        common: dict[str, Any] = {"terminated": terminated, "ended": ended, "gamma": hyper.gamma}
        if c.critic == "q":
            following = self.following(agent, batch, value)
            _, returns = gae(reward, value, following, **common, trace=hyper.gae_lambda)
            return Estimates(value - instead, value, returns, following, **common)
        zeros = jnp.zeros_like(reward)
        every = c.difference_at == "every"
        to_go, _ = gae(reward - instead if every else reward, zeros, zeros, **common, trace=1.0)
        return Estimates(to_go if every else to_go - instead, value, reward, zeros, **common)

    def learn(
        self,
        agent: Agent,
        optimiser_state: Any,
        batch: TrainingBatch,
        *,
        kl_coef: jax.Array,
        key: jax.Array,
        k: Any = None,
        hyper: Hyper | None = None,
    ) -> tuple[Agent, Any, jax.Array, dict[str, jax.Array]]:
        """Update the agent as `Update.learn` does, after training the critic on the rollout, as in COMA.

        Credits are differences of the critic's values. With a critic that lags behind they are meaningless, and the
        policy would follow them until it no longer takes the actions that would correct them.
        """
        hyper = hyper or self.config.hyper
        key, for_critic = jax.random.split(key)
        agent, optimiser_state = self.with_critic_of(batch, agent, optimiser_state, key=for_critic, k=k, hyper=hyper)
        return super().learn(agent, optimiser_state, batch, kl_coef=kl_coef, key=key, k=k, hyper=hyper)

    def with_critic_of(
        self, batch: TrainingBatch, agent: Agent, optimiser_state: Any, *, key: jax.Array, k: Any, hyper: Hyper
    ) -> tuple[Agent, Any]:
        """Return the agent with a critic trained on a rollout, in as many passes as the policy, and the optimizer
        state.

        The policy's moments are unchanged. The critic's moments are kept between rollouts: a new optimizer makes steps
        of full size in all directions at first, which would destroy the differences between actions that credits are
        made of.
        """
        c, optimiser, policy = self.config, self.optimiser(hyper), agent.policy
        samples = self.samples(agent, batch, k, hyper)

        def error(agent: Agent, part: Samples) -> jax.Array:
            value = self.values_of(agent, part.obs, part.local, part.action)
            return hyper.vf_coef * ((value - part.returns) ** 2).mean()

        def minibatch(carry: Any, indices: jax.Array) -> tuple[Any, dict[str, jax.Array]]:
            learnt, state = carry
            part = shard_minibatch(self.devices, jax.tree.map(lambda x: x[indices], samples))
            updates, state = optimiser.update(eqx.filter_grad(error)(learnt, part), state, learnt)
            return (Agent(policy, eqx.apply_updates(learnt, updates).critic), state), {}

        order = lambda key: shuffled(key, len(samples.action)).reshape(-1, c.batch_size)  # noqa: E731
        if c.shuffle == "rollout":
            key, once = jax.random.split(key)
            order = fixed_minibatches(shuffled(once, len(samples.action)), c.batch_size)
        (learnt, state), _ = run_epochs(minibatch, (agent, optimiser_state), jax.random.split(key, c.n_epochs), order)

        def with_policy_of(before: Any, after: Any) -> Any:
            return Agent(before.policy, after.critic) if isinstance(before, Agent) else after

        moments = jax.tree.map(with_policy_of, optimiser_state, state, is_leaf=lambda x: isinstance(x, Agent))
        return learnt, moments

    def following(self, agent: Agent, batch: TrainingBatch, value: jax.Array) -> jax.Array:
        """Return Q of the next observation and the next action, ``[T, B, n]``; at the end of an episode or rollout, Q
        of an action sampled from the policy."""
        assert batch.next_action is not None
        last = (batch.terminated | batch.truncated).at[-1].set(True)
        drawn = self.values_of(agent, batch.next_obs, self.next_local(batch), batch.next_action)
        return jnp.where(last[..., None], drawn, jnp.roll(value, -1, axis=0))
