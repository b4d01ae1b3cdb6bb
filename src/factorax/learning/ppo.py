"""One update of proximal policy optimisation, with a ratio and a credit for every factor.

    L = E Σᵢ min(rᵢ Cᵢ, clip(rᵢ, 1 ± ε) Cᵢ),    rᵢ = πᵢ(aᵢ|s) / πᵢ_old(aᵢ|s),    C = [K(λ∘A)]

with A the advantage of every target. With K all ones and the joint ratio ∏ᵢ rᵢ instead it is the textbook's PPO, which
is the estimator ``"vanilla"``.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from .._credit import credit
from ..structure import Blend, InfluenceNetwork
from .actions import ActionSpace
from .advantages import gae
from .config import Config
from .networks import Critic, Policy


class Agent(eqx.Module):
    """What is learnt."""

    policy: Policy
    critic: Critic


class Batch(NamedTuple):
    """A rollout, time and environments in front: ``[T, B, ...]``."""

    obs: jax.Array
    local: jax.Array | None
    """What every component sees, ``[T, B, c, l]``."""
    action: jax.Array
    """``[T, B, c]``"""
    psi: jax.Array
    """The targets, ``[T, B, m]``."""
    next_obs: jax.Array
    """What followed; at the end of an episode its last observation."""
    next_local: jax.Array | None
    terminated: jax.Array
    """``[T, B]``"""
    truncated: jax.Array
    factor_mask: jax.Array | None = None
    """``[T, B, n]``"""
    target_terminated: jax.Array | None = None
    """``[T, B, m]``"""


class Samples(NamedTuple):
    """What minibatches are made of, one axis of samples in front."""

    obs: jax.Array
    local: jax.Array | None
    action: jax.Array
    log_prob: jax.Array
    """Of every factor under the policy that acted, ``(N, n)``."""
    parameters: jax.Array
    """Of that policy, ``(N, c, width)``."""
    credit: jax.Array
    """``(N, n)``; ``(N, 1)`` for vanilla."""
    value: jax.Array
    returns: jax.Array
    """Both ``(N, m)``."""
    factor_mask: jax.Array | None


@dataclass(frozen=True, eq=False)
class Update:
    """The pure functions of an update for one problem and one set of settings."""

    space: ActionSpace
    n_factors: int
    weights: np.ndarray
    """The multipliers λ, ``(m,)``."""
    factors: np.ndarray | None
    """Which factor a component belongs to, ``(c,)``; None: each is its own."""
    config: Config

    def log_prob(self, out: tuple[jax.Array, jax.Array], action: jax.Array) -> jax.Array:
        """log π of every factor, ``(..., n)``, from what the policy gave."""
        return self._by_factor(self.space.log_prob(*out, action))

    def _by_factor(self, by_component: jax.Array) -> jax.Array:
        """Sums over the components of every factor, ``(..., c)`` → ``(..., n)``."""
        if self.factors is None:
            return by_component
        zeros = jnp.zeros((*by_component.shape[:-1], self.n_factors), by_component.dtype)
        return zeros.at[..., self.factors].add(by_component)

    def samples(self, agent: Agent, batch: Batch, network: InfluenceNetwork | Blend) -> Samples:
        """Advantages, credits and old log-probabilities of a rollout.

        The network has a row for every factor; for the vanilla estimator it has one row of ones.
        """
        c = self.config
        terminated, truncated = batch.terminated[..., None], batch.truncated[..., None]
        ended = terminated | truncated
        if batch.target_terminated is not None:
            terminated = terminated | batch.target_terminated
        if c.bootstrap == "never":
            terminated = terminated | ended
        elif c.bootstrap == "always":
            terminated = jnp.zeros_like(terminated)
        value, following = agent.critic(batch.obs, batch.local), agent.critic(batch.next_obs, batch.next_local)
        if c.critic == "factor":  # the critic knows the credit, so the credit comes first
            psi = credit(network, batch.psi, self.weights)
            if terminated.shape[-1] != 1:
                terminated = credit(network, (~terminated).astype(jnp.float32)) == 0  # no target of it goes on
        else:
            psi = batch.psi
        advantage, returns = gae(
            psi, value, following, terminated=terminated, ended=ended, discount=c.discount, trace=c.gae_lambda
        )
        if c.critic == "target":
            advantage = credit(network, advantage, self.weights)
        out = agent.policy(batch.obs, batch.local)
        samples = Samples(
            batch.obs,
            batch.local,
            batch.action,
            self.log_prob(out, batch.action),
            out[0],
            advantage,
            value,
            returns,
            batch.factor_mask,
        )
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), samples)

    def loss(
        self, agent: Agent, samples: Samples, log_std: jax.Array, kl_coef: jax.Array
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """The loss of a minibatch, and what is worth knowing of it."""
        c = self.config
        out = agent.policy(samples.obs, samples.local)
        log_prob = self.log_prob(out, samples.action)
        mask = samples.factor_mask
        acted = jnp.ones_like(log_prob) if mask is None else mask.astype(log_prob.dtype)
        log_ratio = (log_prob - samples.log_prob) * acted
        advantage = samples.credit
        if c.normalise_advantage and advantage.size > 1:
            advantage = (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-8)
        if c.estimator == "vanilla":
            log_ratio = log_ratio.sum(axis=-1, keepdims=True)
            acted = jnp.ones_like(log_ratio)
            score = (log_prob * (1 if mask is None else mask)).sum(axis=-1, keepdims=True)
        else:
            score = log_prob
        ratio = jnp.exp(log_ratio)
        if c.objective == "ppo":
            clipped = jnp.clip(ratio, 1 - c.clip_range, 1 + c.clip_range)
            gain = jnp.minimum(ratio * advantage, clipped * advantage)
        else:
            gain = score * advantage
        policy_loss = -(gain * acted).sum(axis=-1).mean()
        value = agent.critic(samples.obs, samples.local)
        if c.clip_range_vf is not None:
            value = samples.value + jnp.clip(value - samples.value, -c.clip_range_vf, c.clip_range_vf)
        value_loss = ((samples.returns - value) ** 2).mean()
        entropy = self._by_factor(self.space.entropy(*out))
        kl = self._by_factor(self.space.kl((samples.parameters, log_std), out))
        loss = policy_loss + c.vf_coef * value_loss - c.ent_coef * entropy.sum(axis=-1).mean()
        if c.kl_coef or c.kl_target is not None:
            loss = loss + kl_coef * kl.sum(axis=-1).mean()
        metrics = {
            "policy_gradient_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy.mean(),
            "approx_kl": (jnp.expm1(log_ratio) - log_ratio).mean(),
            "kl": kl.mean(),
            "clip_fraction": (jnp.abs(ratio - 1) > c.clip_range).mean(),
            "loss": loss,
        }
        return loss, metrics

    def optimiser(self) -> optax.GradientTransformation:
        """Adam behind a cut of the gradient's length."""
        c = self.config
        per_update = c.passes * (c.n_envs * c.n_steps // c.batch_size)
        rate = optax.linear_schedule(c.learning_rate, 0.0, c.n_updates * per_update) if c.anneal else c.learning_rate
        return optax.chain(optax.clip_by_global_norm(c.max_grad_norm), optax.adam(rate, eps=1e-5))

    def learn(
        self,
        agent: Agent,
        optimiser_state: Any,
        kl_coef: jax.Array,
        batch: Batch,
        key: jax.Array,
        network: InfluenceNetwork | Blend,
    ) -> tuple[Agent, Any, jax.Array, dict[str, jax.Array]]:
        """All epochs over one rollout."""
        c = self.config
        optimiser = self.optimiser()
        samples = self.samples(agent, batch, network)
        log_std = agent.policy.log_std
        size = c.n_envs * c.n_steps
        gradient_of = eqx.filter_value_and_grad(self.loss, has_aux=True)

        def minibatch(carry: tuple[Any, Any], indices: jax.Array) -> tuple[Any, Any]:
            agent, state = carry
            part = jax.tree.map(lambda x: x[indices], samples)
            (_, metrics), gradient = gradient_of(agent, part, log_std, kl_coef)
            updates, state = optimiser.update(gradient, state, agent)
            return (eqx.apply_updates(agent, updates), state), metrics | {"grad_norm": optax.tree.norm(gradient)}

        def epoch(carry: tuple[Any, Any], key: jax.Array) -> tuple[Any, Any]:
            order = jax.random.permutation(key, size).reshape(-1, c.batch_size)
            return jax.lax.scan(minibatch, carry, order)

        keys = jax.random.split(key, c.passes)
        (agent, optimiser_state), metrics = jax.lax.scan(epoch, (agent, optimiser_state), keys)
        last = jax.tree.map(lambda x: x[-1].mean(), metrics)
        if c.kl_target is not None:
            grow = jnp.where(last["kl"] > 2 * c.kl_target, 1.5, jnp.where(last["kl"] < c.kl_target / 2, 0.5, 1.0))
            kl_coef = kl_coef * grow
        explained = 1 - jnp.var(samples.returns - samples.value) / (jnp.var(samples.returns) + 1e-8)
        return agent, optimiser_state, kl_coef, last | {"explained_variance": explained, "kl_coef": kl_coef}
