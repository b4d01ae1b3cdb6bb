"""One update of proximal policy optimisation, with a ratio and a credit for every factor.

    L = E Σᵢ min(rᵢ Cᵢ, clip(rᵢ, 1 ± ε) Cᵢ),    rᵢ = πᵢ(aᵢ|s) / πᵢ_old(aᵢ|s),    C = [K(λ∘A)]

with A the advantage of every target. With K all ones and the joint ratio ∏ᵢ rᵢ instead it is the textbook's PPO, which
is the estimator ``"vanilla"``.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from .._credit import credit
from ..rollouts.components import CATEGORICAL
from ..structure import Blend, InfluenceNetwork, KArray, LaggedNetwork
from . import sharding
from .actions import ActionSpace, Spread
from .advantages import gae
from .config import Config, Hyper
from .diagnostics import Scores, signal_to_noise, variance_terms
from .lagged import lagged_credit
from .natural import natural_step
from .networks import Critic, Policy

AnyK = InfluenceNetwork | Blend | KArray | LaggedNetwork


class Agent(eqx.Module):
    """What is learnt."""

    policy: Policy
    critic: Critic | None


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
    log_prob: jax.Array | None = None
    """Of every component under the policy that acted, ``[T, B, c]``; None if that is the agent's."""


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
    devices: Mesh | None = None
    """Those that share a minibatch; None if it is one."""

    def log_prob(self, out: tuple[jax.Array, Spread], action: jax.Array) -> jax.Array:
        """log π of every factor, ``(..., n)``, from what the policy gave."""
        return self._by_factor(self.space.log_prob(*out, action))

    def _by_factor(self, by_component: jax.Array) -> jax.Array:
        """Sums over the components of every factor, ``(..., c)`` → ``(..., n)``."""
        if self.factors is None:
            return by_component
        zeros = jnp.zeros((*by_component.shape[:-1], self.n_factors), by_component.dtype)
        return zeros.at[..., self.factors].add(by_component)

    def values(self, agent: Agent, obs: jax.Array, local: Any) -> jax.Array:
        """What the critic expects, ``(..., m)``; nought if there is none."""
        if agent.critic is None:
            return jnp.zeros((*obs.shape[:-1], len(self.weights)))
        return agent.critic(obs, local)

    def samples(self, agent: Agent, batch: Batch, network: AnyK, hyper: Hyper | None = None) -> Samples:
        """Advantages, credits and old log-probabilities of a rollout.

        The network has a row for every factor; for the vanilla estimator it has one row of ones. `hyper` replaces what
        the settings say.
        """
        c, hyper = self.config, hyper or self.config.hyper
        terminated, truncated = batch.terminated[..., None], batch.truncated[..., None]
        ended = terminated | truncated
        if batch.target_terminated is not None:
            terminated = terminated | batch.target_terminated
        if c.bootstrap == "never":
            terminated = terminated | ended
        elif c.bootstrap == "always":
            terminated = jnp.zeros_like(terminated)
        value = self.values(agent, batch.obs, batch.local)
        following = self.values(agent, batch.next_obs, batch.next_local)
        m, own = batch.psi.shape[-1], None
        if c.critic == "target":  # and behind them, by lag, the values of factors
            value, own, following = value[..., :m], value[..., m:], following[..., :m]
        if c.critic == "factor":  # the critic knows the credit, so the credit comes first
            assert not isinstance(network, LaggedNetwork)
            psi = credit(network, batch.psi, self.weights)
            if terminated.shape[-1] != 1:
                terminated = credit(network, (~terminated).astype(jnp.float32)) == 0  # no target of it goes on
        else:
            psi = batch.psi
        advantage, returns = gae(
            psi, value, following, terminated=terminated, ended=ended, discount=hyper.discount, trace=hyper.gae_lambda
        )
        if isinstance(network, LaggedNetwork):
            ends = {"terminated": terminated, "ended": ended, "discount": hyper.discount}
            advantage = lagged_credit(network, returns, following, **ends, weights=self.weights)
            if own is not None:  # what is expected of all that it influences, less what comes too early to be its doing
                early = advantage - credit(network.start, value, self.weights)
                value, returns = (jnp.concatenate(pair, axis=-1) for pair in ((value, own), (returns, early)))
                advantage = early - own
        elif c.critic != "factor":
            advantage = credit(network, advantage, self.weights)
        out = agent.policy(batch.obs, batch.local)
        acted = self.log_prob(out, batch.action) if batch.log_prob is None else self._by_factor(batch.log_prob)
        samples = Samples(
            batch.obs,
            batch.local,
            batch.action,
            acted,
            out[0],
            advantage,
            value,
            returns,
            batch.factor_mask,
        )
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), samples)

    def normalised(self, samples: Samples) -> jax.Array:
        """The credits, centred and scaled by one common scale where they count, if the settings say so."""
        advantage = samples.credit
        if not self.config.normalise_advantage or advantage.size == 1:
            return advantage
        if samples.factor_mask is None or self.config.estimator == "vanilla":
            return (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-8)
        acted = samples.factor_mask.astype(advantage.dtype)
        count = acted.sum()
        mean = (advantage * acted).sum() / jnp.maximum(count, 1)
        variance = (acted * (advantage - mean) ** 2).sum() / jnp.maximum(count - 1, 1)
        return (advantage - mean) / (jnp.sqrt(variance) + 1e-8)

    def divergence(self, samples: Samples, old: Spread, out: tuple[jax.Array, Spread]) -> jax.Array:
        """KL(old ‖ new) of every factor that acted, ``(N, n)``, for what a policy now gives."""
        return self._by_factor(self.space.kl((samples.parameters, old), out)) * self._acted(samples)

    def _acted(self, samples: Samples) -> jax.Array:
        mask = samples.factor_mask
        return jnp.ones_like(samples.log_prob) if mask is None else mask.astype(samples.log_prob.dtype)

    def loss(
        self, agent: Agent, samples: Samples, old: Spread, kl_coef: jax.Array, hyper: Hyper | None = None
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """The loss of a minibatch, and what is worth knowing of it. `old` is the spread of the policy that acted."""
        c, hyper = self.config, hyper or self.config.hyper
        loss, metrics = self.policy_loss(agent.policy, samples, old, kl_coef, hyper)
        if c.objective == "natural":  # the policy has made its step already
            loss = jax.lax.stop_gradient(loss)
        value = self.values(agent, samples.obs, samples.local)
        if c.clip_range_vf is not None:
            value = samples.value + jnp.clip(value - samples.value, -c.clip_range_vf, c.clip_range_vf)
        value_loss = ((samples.returns - value) ** 2).mean()
        loss = loss + hyper.vf_coef * value_loss
        return loss, metrics | {"train/value_loss": value_loss, "train/loss": loss}

    def policy_loss(
        self, policy: Policy, samples: Samples, old: Spread, kl_coef: jax.Array, hyper: Hyper
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """The part of it that the policy has."""
        c = self.config
        out = policy(samples.obs, samples.local)
        log_prob, acted = self.log_prob(out, samples.action), self._acted(samples)
        score, log_ratio = log_prob * acted, (log_prob - samples.log_prob) * acted
        entropy = self._by_factor(self.space.entropy(*out)) * acted
        kl = self.divergence(samples, old, out)
        each = acted.sum(axis=0)
        if c.estimator == "vanilla":
            score, log_ratio = (x.sum(axis=-1, keepdims=True) for x in (score, log_ratio))
            acted = jnp.ones_like(log_ratio)
        advantage = self.normalised(samples)
        ratio = jnp.exp(log_ratio)
        if c.objective == "ppo":
            clipped = jnp.clip(ratio, 1 - hyper.clip_range, 1 + hyper.clip_range)
            gain = jnp.minimum(ratio * advantage, clipped * advantage)
        else:
            gain = score * advantage
        policy_loss = -(gain * acted).sum(axis=-1).mean()
        loss = policy_loss - hyper.ent_coef * entropy.sum(axis=-1).mean()
        if c.kl_coef or (c.kl_target is not None and c.objective != "natural"):
            loss = loss + kl_coef * kl.sum(axis=-1).mean()
        acting = jnp.maximum(acted.sum(), 1)
        outside = (jnp.abs(ratio - 1) > hyper.clip_range) * acted
        metrics = {
            "train/policy_gradient_loss": policy_loss,
            "train/entropy_loss": -entropy.sum(axis=-1).mean(),
            "train/approx_kl": (jnp.expm1(log_ratio) - log_ratio).sum() / acting,
            "train/kl": kl.sum() / jnp.maximum(each.sum(), 1),
            "train/clip_fraction": outside.sum() / acting,
            "factor/entropy": entropy.sum(axis=0) / jnp.maximum(each, 1),
            "factor/kl": kl.sum(axis=0) / jnp.maximum(each, 1),
        }
        if c.estimator == "factored":
            metrics["factor/clip_fraction"] = outside.sum(axis=0) / jnp.maximum(each, 1)
        return loss, metrics

    def by_target(self, agent: Agent, batch: Batch, hyper: Hyper) -> Samples:
        """Samples that are credited with the advantage of every target, ``(N, m)``; where there is no critic of
        targets, with the centred λ-returns."""
        m, has_critic = len(self.weights), self.config.critic == "target"
        config = self.config if has_critic else replace(self.config, critic="none")
        rule = replace(self, weights=np.ones(m), n_factors=m, factors=None, config=config)
        agent = agent if has_critic else Agent(agent.policy, None)
        found = rule.samples(agent, batch, InfluenceNetwork.identity(m), hyper)
        return found if has_critic else found._replace(credit=found.credit - found.credit.mean(axis=0))

    def pairs(self, agent: Agent, batch: Batch, hyper: Hyper) -> tuple[Scores, jax.Array]:
        """The scores of all components and the advantages of all targets ``(N, m)``: E[zᵢ Aⱼ] tells of edges."""
        samples = self.by_target(agent, batch, hyper)
        return self._scores(agent, samples), samples.credit

    def location(self, scores: Scores) -> jax.Array:
        """One score of every component, ``(N, c)``: that of a shift of its action; of choices, towards later ones."""
        shift = np.zeros((len(self.space), self.space.width), np.float32)
        shift[:, 0] = 1.0
        if CATEGORICAL in self.space.of_kind:
            shift[self.space.of_kind[CATEGORICAL]] = np.linspace(-1, 1, self.space.width)
        return (scores.outer * shift).sum(axis=-1)

    def diagnose(self, agent: Agent, samples: Samples) -> dict[str, jax.Array]:
        """Signal and noise of every factor's gradient at the policy that acted."""
        moments, _ = self._moments(agent, samples)
        mean, second = moments(self.normalised(samples))
        return {"factor/gradient_snr": signal_to_noise(second, mean, len(samples.credit))}

    def variances(
        self, agent: Agent, samples: Samples, advantage: jax.Array, network: InfluenceNetwork | Blend | KArray
    ) -> dict[str, jax.Array]:
        """The variance report, from advantages of targets ``(N, m)``."""
        moments, squared = self._moments(agent, samples)
        kept = credit(network, advantage, self.weights)
        total = credit(InfluenceNetwork.complete(1, len(self.weights)), advantage, self.weights)
        terms = variance_terms(squared, kept, total - kept, moments(kept)[0], moments(total)[0])
        found = {f"variance/{name}": value for name, value in terms.items()}
        return found | {"variance/ratio": terms["vanilla"].sum() / (terms["factored"].sum() + 1e-30)}

    def _moments(self, agent: Agent, samples: Samples) -> tuple[Any, jax.Array]:
        """A function from credits to |E[zᵢ cᵢ]|² and E|zᵢ cᵢ|², both ``(n,)``; and |zᵢ|², ``(N, n)``."""
        scores = self._scores(agent, samples)
        n = len(scores.outer)

        def moments(credit: jax.Array) -> tuple[jax.Array, jax.Array]:
            credit = jnp.broadcast_to(credit, (n, self.n_factors))
            mean = self._by_factor(scores.mean_squared(self._by_component(credit)))
            return mean, (squared * credit**2).mean(axis=0)

        squared = self._by_factor(scores.squared)
        return moments, squared

    def _scores(self, agent: Agent, samples: Samples) -> Scores:
        spread, mask = agent.policy.spread, samples.factor_mask
        outer = jax.grad(lambda p: self.space.log_prob(p, spread, samples.action).sum())(samples.parameters)
        if mask is not None:
            outer = outer * self._by_component(mask.astype(outer.dtype))[..., None]
        return Scores(outer, agent.policy.net.features(samples.obs, samples.local))

    def _by_component(self, by_factor: jax.Array) -> jax.Array:
        """From ``(..., n)`` to ``(..., c)``."""
        return by_factor if self.factors is None else by_factor[..., self.factors]

    def optimiser(self, hyper: Hyper | None = None) -> optax.GradientTransformation:
        """Adam behind a cut of the gradient's length."""
        hyper = hyper or self.config.hyper
        cut: Any = hyper.max_grad_norm
        return optax.chain(optax.clip_by_global_norm(cut), optax.adam(hyper.learning_rate, eps=1e-5))

    def learn(
        self,
        agent: Agent,
        optimiser_state: Any,
        kl_coef: jax.Array,
        batch: Batch,
        key: jax.Array,
        network: AnyK,
        hyper: Hyper | None = None,
    ) -> tuple[Agent, Any, jax.Array, dict[str, jax.Array]]:
        """All epochs over one rollout."""
        c, hyper = self.config, hyper or self.config.hyper
        optimiser = self.optimiser(hyper)
        samples = self.samples(agent, batch, network, hyper)
        found = self.diagnose(agent, samples)
        if c.variance_report and c.estimator == "factored":
            assert not isinstance(network, LaggedNetwork)
            flat = KArray(network.weights.reshape(-1, *network.shape)) if isinstance(network, KArray) else network
            found |= self.variances(agent, samples, self.by_target(agent, batch, hyper).credit, flat)
        old = agent.policy.spread
        if c.objective == "natural":
            agent = eqx.tree_at(lambda a: a.policy, agent, natural_step(self, agent, samples, hyper))
        size = c.n_envs * c.n_steps
        gradient_of = eqx.filter_value_and_grad(self.loss, has_aux=True)

        def minibatch(carry: tuple[Any, Any], indices: jax.Array) -> tuple[Any, Any]:
            agent, state = carry
            part = sharding.minibatch(self.devices, jax.tree.map(lambda x: x[indices], samples))
            (_, metrics), gradient = gradient_of(agent, part, old, kl_coef, hyper)
            updates, state = optimiser.update(gradient, state, agent)
            return (eqx.apply_updates(agent, updates), state), metrics | {"train/grad_norm": optax.tree.norm(gradient)}

        def epoch(carry: tuple[Any, Any], key: jax.Array) -> tuple[Any, Any]:
            order = shuffled(key, size).reshape(-1, c.batch_size)
            carry, metrics = jax.lax.scan(minibatch, carry, order)
            return carry, jax.tree.map(lambda x: x.mean(axis=0), metrics)

        keys = jax.random.split(key, c.passes)
        (agent, optimiser_state), metrics = jax.lax.scan(epoch, (agent, optimiser_state), keys)
        last = jax.tree.map(lambda x: x[-1], metrics)
        if c.kl_target is not None:
            kl = last["train/kl"]
            kl_coef = kl_coef * jnp.where(kl > 2 * c.kl_target, 1.5, jnp.where(kl < c.kl_target / 2, 0.5, 1.0))
        returns, missed = samples.returns, samples.returns - samples.value
        last |= {
            "train/explained_variance": 1 - jnp.var(missed) / (jnp.var(returns) + 1e-8),
            "train/kl_coef": kl_coef,
            "train/learning_rate": jnp.asarray(hyper.learning_rate),
        }
        if c.estimator == "factored":
            last["factor/credit_std"] = samples.credit.std(axis=0)
        if c.critic == "target" or (c.critic == "factor" and c.estimator == "factored"):
            returns, missed = (x[:, : batch.psi.shape[-1]] if c.critic == "target" else x for x in (returns, missed))
            last[f"{c.critic}/explained_variance"] = 1 - missed.var(axis=0) / (returns.var(axis=0) + 1e-8)
            last[f"{c.critic}/value_error"] = jnp.sqrt((missed**2).mean(axis=0))
        return agent, optimiser_state, kl_coef, last | found


def shuffled(key: jax.Array, size: int) -> jax.Array:
    """The numbers below `size` in random order.

    Random bits in front, the number behind, and a sort of one array: XLA needs several times as long for the sort of
    pairs in `jax.random.permutation`. Two numbers whose random bits, 16 at least, agree stay in order.
    """
    behind = max(size - 1, 1).bit_length()
    if behind > 16:
        return jax.random.permutation(key, size)
    front = jax.random.bits(key, (size,), jnp.uint32) << behind
    return (jnp.sort(front | jnp.arange(size, dtype=jnp.uint32)) & ((1 << behind) - 1)).astype(jnp.int32)
