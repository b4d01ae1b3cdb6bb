"""What COMA and difference rewards share: a critic of the actions of a factor, given those of all others."""

from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from ..._text import shown
from ...networks import Agent, Critic, make_action_values
from ...networks.factor_actions import FactorActions, default_actions, encoded_actions
from ..config import Hyper
from ..credits import Credit, Rollout, factor_rewards
from ..method import Learned, Method, Outputs, Samples
from ..minibatches import shuffled


@dataclass(frozen=True)
class Counterfactual(Method):
    """A method whose critic compares the action of a factor with what it could have done instead.

    Credits are differences of the critic's values. With a critic that lags behind they are meaningless, and the policy
    would follow them until it no longer takes the actions that would correct them. Hence the critic is trained on each
    rollout first, in as many passes as the policy.
    """

    settings: ClassVar[dict[str, Any]] = {"policy": "shared"}
    network_name: ClassVar[str | None] = "complete"
    predicts_credit: ClassVar[bool] = True

    @property
    def default(self) -> tuple[float, ...]:
        """The default action of each component; empty if the mean over the policy's actions is meant."""
        return ()

    def optimiser(self, hyper: Hyper) -> optax.GradientTransformation:
        """Return Adam with moments per array, so that those of the policy can be told from those of the critic."""
        return self.adam(hyper)

    def critic(self, update: Any, policy: Any, key: jax.Array) -> Critic:
        """Return a critic with one value per action of each factor, or the value of a given action."""
        spec, c = update.spec, update.config
        if c.critic.module is not None:
            raise ValueError(
                f"critic: got {shown(c.critic.module)} with method={self.name!r}, whose critic of actions is built in; "
                "want only one of the two"
            )
        if policy.memory:
            raise ValueError(
                f"architecture: got a policy with memory and method={self.name!r}, whose critic of actions has none; "
                "want a policy without memory, such as architecture='mlp'"
            )
        if self.default:
            default_actions(spec, self.default)  # raises if they do not fit
        outputs = 1 if self.default else FactorActions.of(spec).most
        return Critic(make_action_values(spec, c, key, outputs=outputs))

    def value(self, update: Any, agent: Any, obs: jax.Array, local: Any, action: jax.Array) -> jax.Array:
        """Return the critic's value of each factor's action given the others, ``(..., n)``, for raw actions ``(...,
        c)``."""
        if self.default:
            encoded = encoded_actions(update.spec, action)
            return agent.critic.net(obs, local, encoded, own=encoded)[..., 0]
        values, _ = self.all_values(update, agent, obs, local, action)
        number = FactorActions.of(update.spec).number(action)
        return jnp.take_along_axis(values, number[..., None], axis=-1)[..., 0]

    def all_values(self, update: Any, agent: Any, obs: jax.Array, local: Any, action: jax.Array) -> Any:
        """Return the values of all actions of each factor, given the others, and their probabilities, ``(..., n,
        B)``."""
        # The critic must not move the policy, whose probabilities only centre its outputs.
        out = jax.lax.stop_gradient(agent.policy(obs, local))
        probabilities = FactorActions.of(update.spec).probabilities(*out)
        encoded = encoded_actions(update.spec, action)
        return agent.critic.net(obs, local, encoded, probabilities=probabilities), probabilities

    def instead(self, update: Any, agent: Any, obs: jax.Array, local: Any, action: jax.Array) -> jax.Array:
        """Return the counterfactual value of each factor, ``(..., n)``: of its default action, or the mean under its
        policy. It does not depend on the factor's action."""
        if self.default:
            default = jnp.broadcast_to(default_actions(update.spec, self.default), action.shape)
            encoded, other = encoded_actions(update.spec, action), encoded_actions(update.spec, default, raw=False)
            return agent.critic.net(obs, local, encoded, own=other)[..., 0]
        values, probabilities = self.all_values(update, agent, obs, local, action)
        return (probabilities * values).sum(axis=-1)

    def evaluate(self, update: Any, agent: Agent, samples: Samples, length: int = 1) -> Outputs:
        """Return the output of the policy, and the critic's values of the actions of samples, ``(N, n)``."""
        inputs = samples.obs, samples.local
        return agent.policy(*inputs), self.value(update, agent, *inputs, samples.action)

    def compared(
        self, update: Any, agent: Agent, rollout: Rollout, reward: jax.Array, terminated: Any, hyper: Hyper, key: Any
    ) -> Credit:
        """Return the credit of every factor from its rewards ``[T, B, n]``, and what the critic should predict."""
        raise NotImplementedError

    def credit(
        self, update: Any, learned: Learned, rollout: Rollout, k: Any, hyper: Hyper, key: jax.Array
    ) -> tuple[Learned, Credit]:
        """Train the critic on the rollout, and return its comparison of actions."""
        rewards = factor_rewards(k, update.spec.weights, rollout)
        # Folded, because `Update.learn` splits the same key for the order of minibatches.
        key, for_critic = jax.random.split(jax.random.fold_in(key, 1))
        first = self.compared(update, learned[0], rollout, *rewards, hyper, key)
        samples = update.samples(learned[0], rollout, first)
        learned = self.with_trained_critic(update, learned, samples, hyper, for_critic)
        # With the key of the first comparison: only the critic has changed, not the actions drawn.
        return learned, self.compared(update, learned[0], rollout, *rewards, hyper, key)

    def with_trained_critic(
        self, update: Any, learned: Learned, samples: Samples, hyper: Hyper, key: jax.Array
    ) -> Learned:
        """Return the agent with its critic trained on samples, and the state of the optimizer."""
        # The moments of the critic are kept between rollouts: a new optimizer makes steps of full size in all
        # directions at first, which would destroy the differences between actions that credits are made of.
        optimiser, policy = self.optimiser(hyper), learned[0].policy

        def error(agent: Agent, part: Samples) -> jax.Array:
            value = self.value(update, agent, part.obs, part.local, part.action)
            return hyper.vf_coef * ((value - part.returns) ** 2).mean()

        def step(carry: Learned, indices: jax.Array) -> tuple[Learned, None]:
            agent, moments = carry
            part = update.place(jax.tree.map(lambda x: x[indices], samples))
            changes, moments = optimiser.update(eqx.filter_grad(error)(agent, part), moments)
            return (Agent(policy, eqx.apply_updates(agent, changes).critic), moments), None

        keys = jax.random.split(key, update.config.n_epochs)
        order = jax.vmap(lambda key: shuffled(key, len(samples.action)))(keys)
        (agent, moments), _ = jax.lax.scan(step, learned, order.reshape(-1, update.config.batch_size))

        def keep_policy(before: Any, after: Any) -> Any:  # its moments have seen gradients of 0
            return Agent(before.policy, after.critic) if isinstance(before, Agent) else after

        return agent, jax.tree.map(keep_policy, learned[1], moments, is_leaf=lambda x: isinstance(x, Agent))
