"""One update of factored PPO: values → credit → samples → minibatches → gradient steps.

The loss is that of `losses`, the credit that of `credits`, and a `Method` may replace either. Everything here is pure:
compile it, differentiate it, vectorise it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from ..distributions import Spread
from ..networks import Agent, uses_local
from ..spec import Spec
from ..structure import BaseNetwork
from . import diagnostics
from .config import Config, Hyper
from .credits import Credit, Rollout
from .losses import joint, standardise
from .method import Learned, Method, Metrics, Minibatches, Samples
from .minibatches import sequence_order, shuffled


@dataclass(frozen=True, eq=False)
class Update:
    """The pure functions of an update for one problem and one set of settings."""

    spec: Spec
    config: Config
    place: Callable[[Samples], Samples] = lambda samples: samples
    """Applied to each minibatch."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", self.config.for_problem(self.spec))

    @property
    def method(self) -> Method:
        """The functions in which methods differ."""
        return self.config.method

    @cached_property
    def network(self) -> BaseNetwork:
        """The network that credits the factors."""
        return self.method.network(self.spec)

    def log_prob(self, out: tuple[jax.Array, Spread], action: jax.Array) -> jax.Array:
        """Return log πᵢ of each factor, ``(..., n)``, given the output of the policy."""
        return self.spec.by_factor(self.spec.components.log_prob(*out, action))

    def entropy(self, out: tuple[jax.Array, Spread]) -> jax.Array:
        """Return the entropy of each factor, ``(..., n)``, given the output of the policy."""
        return self.spec.by_factor(self.spec.components.entropy(*out))

    def divergence(self, old: tuple[Any, Spread], out: tuple[jax.Array, Spread]) -> jax.Array:
        """Return KL(old ‖ new) of each factor, ``(..., n)``, given the outputs of two policies."""
        return self.spec.by_factor(self.spec.components.kl(old, out))

    def values(self, agent: Agent, rollout: Rollout) -> tuple[Any, Any]:
        """Return the critic's predictions for the observations and next observations of a rollout, ``[T, B, v]``."""
        now, memory = agent.values(rollout.obs, rollout.local, (rollout.memory, rollout.critic_memory))
        return now, agent.values(rollout.next_obs, self.local(rollout.next_obs), memory)[0]

    def local(self, obs: jax.Array) -> jax.Array | None:
        """Return the local observations of the components, ``(..., c, l)``; None if no network uses them."""
        return self.spec.local_of(obs, jnp) if uses_local(self.spec, self.config, self.config.critic.module) else None

    def samples(self, agent: Agent, rollout: Rollout, credit: Credit) -> Samples:
        """Return the samples of a rollout with its credit, time first."""
        out = agent.policy.at(rollout.obs, rollout.local, rollout.memory)
        by_component, mask = rollout.log_prob, rollout.factor_mask
        factor_credit = credit.credit
        acted = jnp.ones_like(factor_credit[..., :1]) if mask is None else mask.astype(factor_credit.dtype)
        samples = Samples(
            obs=rollout.obs,
            local=rollout.local,
            action=rollout.action,
            log_prob=self.log_prob(out, rollout.action) if by_component is None else self.spec.by_factor(by_component),
            # Idle factors have no credit, also in metrics; the single credit of a joint ratio is not masked.
            credit=factor_credit if factor_credit.shape[-1] < acted.shape[-1] else factor_credit * acted,
            value=credit.value,
            returns=credit.returns,
            acted=acted,
            parameters=out[0],
            memory=rollout.memory,
            critic_memory=rollout.critic_memory,
            starts=rollout.starts,
        )
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), samples)

    def loss_credit(self, samples: Samples) -> jax.Array:
        """Return the credits of samples as they enter the loss: standardised, if the settings ask for it."""
        return standardise(samples.credit, samples.acted) if self.config.normalize_advantage else samples.credit

    def steps(self, samples: Samples) -> Minibatches:
        """Return minibatches of single steps, in random order."""
        size = self.config.batch_size
        # Minibatches are copies: what the loss of single steps does not read is not copied.
        rows = samples._replace(parameters=None, memory=None, critic_memory=None, starts=None)
        return Minibatches(
            order=lambda key: shuffled(key, len(rows.obs)).reshape(-1, size),
            take=lambda indices: jax.tree.map(lambda x: x[indices], rows),
            evaluate=partial(self.method.evaluate, self),
        )

    def sequences(self, samples: Samples, length: int) -> Minibatches:
        """Return minibatches of sequences of one environment each, for truncated backpropagation through time."""
        c, rows = self.config, samples._replace(parameters=None)
        return Minibatches(
            order=lambda key: sequence_order(key, c.n_envs, c.n_steps, length, c.batch_size),
            take=lambda indices: jax.tree.map(lambda x: x[indices], rows),
            evaluate=partial(self.method.evaluate, self, length=length),
        )

    def learn(
        self,
        agent: Agent,
        optimiser_state: Any,
        rollout: Rollout,
        *,
        key: jax.Array,
        k: Any = None,
        hyper: Hyper | None = None,
        state: Any = None,
    ) -> tuple[Agent, Any, Any, Metrics]:
        """Learn from a rollout; return the agent, the states of optimizer and method, and metrics.

        - `k`: K for this rollout, from the network's `for_rollout`; by default the static network.
        - `hyper`: overrides the settings of the same names; `state`: what the method carries from update to update.
        """
        c, method, hyper = self.config, self.method, hyper or self.config.hyper
        k = self.network.static if k is None else k
        # Once for all passes, by the critic before its steps, as in Stable-Baselines3.
        learned, credit = method.credit(self, (agent, optimiser_state), rollout, k, hyper, key)
        acting = learned[0].policy.spread  # before any step: divergences are from the policy that acted
        samples = self.samples(learned[0], rollout, credit)
        metrics = diagnostics.rollout_metrics(self, learned[0], samples)
        if c.variance_report and self.network is self.spec.network:
            advantage = diagnostics.target_advantages(self, agent, rollout, hyper).reshape(rollout.psi.shape)
            metrics |= diagnostics.variance_report(self.spec, learned[0], samples, advantage, k)
        learned, minibatches = method.minibatches(self, learned, samples, hyper, key)
        optimiser = method.optimiser(hyper)

        def loss(agent: Agent, part: Samples) -> tuple[jax.Array, jax.Array]:
            return method.loss(self, minibatches.evaluate(agent, part), part, hyper, (state, acting))

        def step(carry: tuple[Learned, jax.Array], indices: jax.Array) -> tuple[Any, Any]:
            (agent, moments), goes_on = carry
            part = self.place(minibatches.take(indices))
            (total, log_ratio), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(agent, part)
            changes, moments = optimiser.update(gradient, moments)
            new = eqx.apply_updates(agent, changes), moments
            if c.target_kl is not None:  # as Stable-Baselines3, stop before a step from too far away
                goes_on &= (jnp.expm1(joint(log_ratio)) - joint(log_ratio)).mean() <= 1.5 * c.target_kl
                # A compiled loop cannot break: the remaining steps are computed, and dropped.
                new = jax.tree.map(lambda a, b: jnp.where(goes_on, a, b), new, carry[0])
            return (new, goes_on), (total, optax.tree.norm(gradient), goes_on)

        # Methods that draw in `credit` or `minibatches` fold a number into the key first, so this split is independent.
        order = jax.vmap(minibatches.order)(jax.random.split(key, method.passes(c)))
        one_by_one = order.reshape(-1, order.shape[-1])
        (learned, _), (totals, norms, learnt) = jax.lax.scan(step, (learned, jnp.bool_(True)), one_by_one)
        last = slice(-order.shape[1], None)  # means over the last pass, whose policy is nearest to the new one
        metrics |= {"train/loss": totals[last].mean(), "train/grad_norm": norms[last].mean()}
        metrics |= {"train/n_minibatches": learnt.sum(), "train/learning_rate": jnp.asarray(hyper.learning_rate)}
        metrics |= diagnostics.update_metrics(self, agent, learned[0], samples, hyper)
        return *learned, method.next_state(state, metrics), metrics
