"""Metrics of an update: losses, divergences, and signal and noise of each factor's gradient.

The gradient of factor i in one sample is zᵢ cᵢ, its score times its credit. With respect to the last layer of the
policy, with input h, the score is ∂log πᵢ/∂φᵢ ⊗ (h, 1), so the mean and variance of this part of the gradient cost one
matrix product, without per-sample gradients. If factors share the last layer, each is treated as if it had its own
copy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._credit import credit
from ..networks import Agent
from ..spec import Spec
from ..structure import InfluenceNetwork
from .credits import NoCritic, Rollout, Target
from .losses import joint, squared_error
from .method import Metrics, Samples


class Scores(NamedTuple):
    """Scores of N samples and c components."""

    outer: jax.Array
    """∂log π/∂φ, ``(N, c, width)``, zero where a factor did not act."""
    inner: jax.Array
    """h, ``(N, c or 1, hidden)``."""

    @property
    def squared(self) -> jax.Array:
        """|z|² of each component, ``(N, c)``."""
        return (self.outer**2).sum(axis=-1) * ((self.inner**2).sum(axis=-1) + 1)  # 1 is the input of the bias

    def mean_squared(self, credit: jax.Array) -> jax.Array:
        """Return |E[z c]|² of each component, ``(c,)``, for credits ``(N, c)``."""
        weighted = self.outer * credit[..., None] / len(credit)
        if self.inner.shape[1] == 1:
            # One matrix product for all components, which see the same h.
            inner = jnp.einsum("nh,ncw->chw", self.inner[:, 0], weighted)
        else:
            inner = jnp.einsum("nch,ncw->chw", self.inner, weighted)
        return (inner**2).sum(axis=(1, 2)) + (weighted.sum(axis=0) ** 2).sum(axis=-1)


def signal_to_noise(second: jax.Array, mean_squared: jax.Array, samples: int) -> jax.Array:
    """Return an unbiased |E g|² / V[g] of the gradient g of one sample, from E|g|² and the squared mean of the batch.

    Its inverse is the batch size at which signal and noise of the mean are equal. Without a signal it scatters around
    zero.
    """
    variance = (second - mean_squared) * samples / max(samples - 1, 1)
    return (mean_squared - variance / samples) / (variance + 1e-30)  # E|mean|² = |E g|² + V / N


def variance_terms(
    squared: jax.Array, kept: jax.Array, dropped: jax.Array, factored: jax.Array, vanilla: jax.Array
) -> dict[str, jax.Array]:
    """Return the decomposition of Prop. 2 for each factor, ``(n,)``, on a batch: the variance that the network saves.

        ΔVᵢ = αᵢ E[bᵢ²] + 2 E[|zᵢ|² kᵢ] E[bᵢ] + 2 Cov(|zᵢ|² kᵢ, bᵢ) + residual

    with kᵢ the credit of factor i and bᵢ the dropped targets. The residual contains the signal in dropped targets, if
    the network lacks edges, and the dependence of |zᵢ|² and bᵢ on the state, which Prop. 2 keeps fixed.

    - `squared`, `kept`, `dropped`: |zᵢ|², kᵢ and bᵢ, ``(N, n)``.
    - `factored`, `vanilla`: |E[zᵢ kᵢ]|² and |E[zᵢ (kᵢ + bᵢ)]|², ``(n,)``.
    """
    weighted = squared * kept
    covariance = (weighted * dropped).mean(axis=0) - weighted.mean(axis=0) * dropped.mean(axis=0)
    alpha = squared.mean(axis=0)
    terms = {
        "alpha": alpha,
        "quadratic": alpha * (dropped**2).mean(axis=0),
        "linear": 2 * weighted.mean(axis=0) * dropped.mean(axis=0),
        "covariance": 2 * covariance,
        "vanilla": (squared * (kept + dropped) ** 2).mean(axis=0) - vanilla,
        "factored": (weighted * kept).mean(axis=0) - factored,
    }
    return terms | {"delta": terms["vanilla"] - terms["factored"]}


def squared_bias(mean_squared: jax.Array, second: jax.Array, *, samples: int) -> jax.Array:
    """Return |E[zᵢ bᵢ]|² of each factor, ``(n,)``: the squared bias by dropping bᵢ, 0 if the network is correct.

    As `BiasReport.squared` relative to a complete network: the contribution of the noise of N samples to the squared
    mean is subtracted, so that it scatters around 0 without bias.

    - `mean_squared`, `second`: the squared mean of zᵢ bᵢ over the samples, and E|zᵢ bᵢ|², ``(n,)``.
    """
    variance = (second - mean_squared) * samples / max(samples - 1, 1)
    return mean_squared - variance / samples


@dataclass(frozen=True, eq=False)
class Evidence:
    """The data of a rollout for a network (`BaseNetwork.update_state`); each quantity is computed only if it is
    used."""

    update: Any
    """The `Update` that learns from the rollout."""
    agent: Agent
    rollout: Rollout
    hyper: Any

    @property
    def weights(self) -> Any:
        """The multipliers λ, ``(m,)``."""
        return self.update.spec.weights

    @property
    def n_envs(self) -> int:
        """Number of environments B; samples are ordered by time, then by environment."""
        return self.rollout.obs.shape[1]

    @cached_property
    def scores(self) -> Scores:
        """The scores of all components with respect to the last layer of the policy."""
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (self.rollout, self._out[0]))
        rollout, parameters = flat
        return scores_of(self.update.spec, self.agent, rollout, parameters, rollout.factor_mask)

    @cached_property
    def advantage(self) -> jax.Array:
        """The advantage of each target, ``(N, m)``; without a critic of targets, the centred λ-returns."""
        return target_advantages(self.update, self.agent, self.rollout, self.hyper)

    @cached_property
    def entropy(self) -> jax.Array:
        """The entropy of each factor's distribution, ``(N, n)``."""
        entropy = self.update.entropy(self._out)
        return entropy.reshape(-1, entropy.shape[-1])

    @cached_property
    def location_scores(self) -> jax.Array:
        """One score per component, ``(N, c)``: that of a shift of its action or, for choices, towards later ones."""
        return (self.scores.outer * self.update.spec.components.directions).sum(axis=-1)

    @cached_property
    def _out(self) -> Any:
        return self.agent.policy.at(self.rollout.obs, self.rollout.local, self.rollout.memory)


def target_advantages(update: Any, agent: Agent, rollout: Rollout, hyper: Any) -> jax.Array:
    """Return the advantage of each target, ``(N, m)``; without a critic of targets, the centred λ-returns."""
    kind = update.config.critic
    has_critic = type(kind) is Target and not update.method.predicts_credit  # others have no values of targets
    values: Any = update.values(agent, rollout) if has_critic else None
    estimates = (kind if has_critic else NoCritic()).estimates(update.spec.network, rollout, values, hyper)
    advantage = estimates.advantage.reshape(-1, update.spec.n_targets)
    # Without a critic nothing has been subtracted yet, and a common offset would only add noise.
    return advantage if has_critic else advantage - advantage.mean(axis=0)


def scores_of(spec: Spec, agent: Agent, samples: Any, parameters: Any, acted: Any) -> Scores:
    """Return the scores of N samples at the parameters of the distributions that acted, ``(N, c, width)``.

    - `samples`: anything with `obs`, `local`, `action` and `memory`; `acted`: which factors acted, ``(N, n)``, or None.
    """
    spread = agent.policy.spread
    log_prob = lambda parameters: spec.components.log_prob(parameters, spread, samples.action).sum()  # noqa: E731
    outer = jax.grad(log_prob)(parameters)
    if acted is not None:
        outer = outer * spec.by_component(jnp.broadcast_to(acted, (len(outer), spec.n_factors)))[..., None]
    return Scores(outer, agent.policy.features(samples.obs, samples.local, samples.memory))


def _moments(spec: Spec, agent: Agent, samples: Samples) -> tuple[Callable[..., Any], jax.Array]:
    """Return a function from credits to |E[zᵢ cᵢ]|² and E|zᵢ cᵢ|², both ``(n,)``; and |zᵢ|², ``(N, n)``."""
    scores = scores_of(spec, agent, samples, samples.parameters, samples.acted)
    squared = spec.by_factor(scores.squared)

    def moments(factor_credit: jax.Array) -> tuple[jax.Array, jax.Array]:
        factor_credit = jnp.broadcast_to(factor_credit, (len(scores.outer), spec.n_factors))
        mean = spec.by_factor(scores.mean_squared(spec.by_component(factor_credit)))
        return mean, (squared * factor_credit**2).mean(axis=0)

    return moments, squared


def variance_report(spec: Spec, agent: Agent, samples: Samples, advantage: jax.Array, k: Any) -> dict[str, Any]:
    """Return the variance decomposition of each factor's gradient, with and without the network, and its squared bias.

    - `advantage`: the advantage of each target, ``[T, B, m]``; `k`: K for the rollout, which may differ from step to
      step.
    """
    moments, squared = _moments(spec, agent, samples)
    kept = credit(k, advantage, spec.weights).reshape(-1, spec.n_factors)
    total = credit(InfluenceNetwork.complete(1, spec.n_targets), advantage, spec.weights).reshape(-1, 1)
    dropped = jnp.broadcast_to(total - kept, kept.shape)
    terms = variance_terms(squared, kept, dropped, moments(kept)[0], moments(total)[0])
    terms["bias"] = squared_bias(*moments(dropped), samples=len(kept))
    metrics = {f"variance/{name}": value for name, value in terms.items()}
    return metrics | {"variance/ratio": terms["vanilla"].sum() / (terms["factored"].sum() + 1e-30)}


def rollout_metrics(update: Any, agent: Agent, samples: Samples) -> Metrics:
    """Return metrics of a rollout before learning from it."""
    c, spec, returns, error = update.config, update.spec, samples.returns, samples.returns - samples.value
    factor_credit = update.loss_credit(samples)
    moments, _ = _moments(spec, agent, samples)
    mean, second = moments(factor_credit)
    metrics = {
        "factor/gradient_snr": signal_to_noise(second, mean, len(samples.credit)),
        "train/explained_variance": 1 - jnp.var(error) / (jnp.var(returns) + 1e-8),
    }
    if update.network is not spec.network:  # one credit for all
        return metrics
    metrics["factor/credit_std"] = samples.credit.std(axis=0)
    of = "target" if isinstance(c.critic, Target) else "factor"
    returns, error = (x[:, : spec.n_targets] if of == "target" else x for x in (returns, error))
    metrics[f"{of}/explained_variance"] = 1 - error.var(axis=0) / (returns.var(axis=0) + 1e-8)
    metrics[f"{of}/value_error"] = jnp.sqrt((error**2).mean(axis=0))
    return metrics


def update_metrics(update: Any, acting: Agent, agent: Agent, samples: Samples, hyper: Any) -> Metrics:
    """Return metrics of an update, of all samples of its rollout: how far the policy has moved from the acting one."""
    out, values = update.method.evaluate(update, agent, samples, update.config.n_steps)
    acted = jnp.broadcast_to(samples.acted, samples.log_prob.shape)
    log_ratio = (update.log_prob(out, samples.action) - samples.log_prob) * acted
    credit = update.loss_credit(samples)
    policy_loss = update.method.policy_loss(log_ratio, credit, hyper)
    entropy = (update.entropy(out) * acted).sum(axis=0)
    kl = (update.divergence((samples.parameters, acting.policy.spread), out) * acted).sum(axis=0)
    if samples.credit.shape[-1] < acted.shape[-1]:  # one ratio for the joint action
        log_ratio = joint(log_ratio)
    # Sums over samples first: sums over all factors are sums of those of the factors.
    count = acted.sum(axis=0)
    ratios = jnp.maximum(jnp.ones_like(log_ratio).sum() if log_ratio.shape[-1] == 1 else count.sum(), 1)
    outside = (jnp.abs(jnp.expm1(log_ratio)) > hyper.clip_range).sum(axis=0)
    metrics = {
        "train/policy_gradient_loss": policy_loss,
        "train/value_loss": squared_error(values, samples.returns, samples.value, update.config.clip_range_vf),
        "train/entropy_loss": -entropy.sum() / len(samples.action),
        "train/approx_kl": (jnp.expm1(log_ratio) - log_ratio).sum() / ratios,
        "train/kl": kl.sum() / jnp.maximum(count.sum(), 1),
        "train/clip_fraction": outside.sum() / ratios,
        "factor/entropy": entropy / jnp.maximum(count, 1),
        "factor/kl": kl / jnp.maximum(count, 1),
    }
    if len(outside) == len(count):
        metrics["factor/clip_fraction"] = outside / jnp.maximum(count, 1)
    return metrics
