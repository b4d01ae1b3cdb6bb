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
from ..networks.policies import Agent
from ..spec import Spec
from ..structure import InfluenceNetwork
from .advantages import Samples, TrainingBatch
from .config import Config


class Scores(NamedTuple):
    """Scores of N samples and c components."""

    outer: jax.Array
    """∂log π/∂φ, ``(N, c, width)``, zero where a factor did not act."""
    inner: jax.Array
    """h, ``(N, c or 1, hidden)``."""

    @property
    def squared(self) -> jax.Array:
        """|z|² of each component, ``(N, c)``."""
        return (self.outer**2).sum(axis=-1) * ((self.inner**2).sum(axis=-1) + 1)

    def mean_squared(self, credit: jax.Array) -> jax.Array:
        """Return |E[z c]|² of each component, ``(c,)``, for credits ``(N, c)``."""
        weighted = self.outer * credit[..., None] / len(credit)
        if self.inner.shape[1] == 1:
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
    return (mean_squared - variance / samples) / (variance + 1e-30)


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

    spec: Spec
    agent: Agent
    batch: TrainingBatch
    advantages: Callable[[], jax.Array]
    """The advantage of each target, ``(N, m)``."""

    @property
    def weights(self) -> Any:
        """The multipliers λ, ``(m,)``."""
        return self.spec.weights

    @property
    def n_envs(self) -> int:
        """Number of environments B; samples are ordered by time, then by environment."""
        return self.batch.obs.shape[1]

    @cached_property
    def scores(self) -> Scores:
        """The scores of all components with respect to the last layer of the policy."""
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (self.batch, self._out[0]))
        return scores_of(self.spec, self.agent, *flat)

    @cached_property
    def advantage(self) -> jax.Array:
        """The advantage of each target, ``(N, m)``."""
        return self.advantages()

    @cached_property
    def entropy(self) -> jax.Array:
        """The entropy of each factor's distribution, ``(N, n)``."""
        entropy = self.spec.by_factor(self.spec.components.entropy(*self._out))
        return entropy.reshape(-1, entropy.shape[-1])

    @cached_property
    def location_scores(self) -> jax.Array:
        """One score per component, ``(N, c)``: that of a shift of its action or, for choices, towards later ones."""
        return (self.scores.outer * self.spec.components.directions).sum(axis=-1)

    @cached_property
    def _out(self) -> Any:
        return self.agent.policy.at(self.batch.obs, self.batch.local, self.batch.memory)


def scores_of(spec: Spec, agent: Agent, samples: Samples | TrainingBatch, parameters: jax.Array) -> Scores:
    """Return the scores of N samples at the parameters of the distributions that acted, ``(N, c, width)``."""
    spread, mask = agent.policy.spread, samples.factor_mask
    log_prob = lambda parameters: spec.components.log_prob(parameters, spread, samples.action).sum()  # noqa: E731
    outer = jax.grad(log_prob)(parameters)
    if mask is not None:
        outer = outer * spec.by_component(mask.astype(outer.dtype))[..., None]
    return Scores(outer, agent.policy.features(samples.obs, samples.local, samples.memory))


def _moments(spec: Spec, agent: Agent, samples: Samples) -> tuple[Callable[..., Any], jax.Array]:
    """Return a function from credits to |E[zᵢ cᵢ]|² and E|zᵢ cᵢ|², both ``(n,)``; and |zᵢ|², ``(N, n)``."""
    scores = scores_of(spec, agent, samples, samples.parameters)
    squared = spec.by_factor(scores.squared)

    def moments(factor_credit: jax.Array) -> tuple[jax.Array, jax.Array]:
        factor_credit = jnp.broadcast_to(factor_credit, (len(scores.outer), spec.n_factors))
        mean = spec.by_factor(scores.mean_squared(spec.by_component(factor_credit)))
        return mean, (squared * factor_credit**2).mean(axis=0)

    return moments, squared


def gradient_snr(spec: Spec, agent: Agent, samples: Samples, factor_credit: jax.Array) -> jax.Array:
    """Return the signal-to-noise ratio of each factor's gradient at the acting policy, ``(n,)``, for credits ``(N,
    n)``."""
    moments, _ = _moments(spec, agent, samples)
    mean, second = moments(factor_credit)
    return signal_to_noise(second, mean, len(samples.credit))


def variance_report(spec: Spec, agent: Agent, samples: Samples, advantage: jax.Array, k: Any) -> dict[str, Any]:
    """Return the variance decomposition of each factor's gradient, with and without the network, and its squared bias.

    - `advantage`: the advantage of each target, ``[T, B, m]``; `k`: K for the rollout.
    """
    moments, squared = _moments(spec, agent, samples)
    kept = credit(k, advantage, spec.weights)
    total = credit(InfluenceNetwork.complete(1, spec.n_targets), advantage, spec.weights)
    kept, total = (x.reshape(-1, x.shape[-1]) for x in (kept, total))
    dropped = jnp.broadcast_to(total - kept, kept.shape)
    terms = variance_terms(squared, kept, dropped, moments(kept)[0], moments(total)[0])
    terms["bias"] = squared_bias(*moments(dropped), samples=len(kept))
    metrics = {f"variance/{name}": value for name, value in terms.items()}
    return metrics | {"variance/ratio": terms["vanilla"].sum() / (terms["factored"].sum() + 1e-30)}


def rollout_metrics(
    spec: Spec,
    config: Config,
    agent: Agent,
    samples: Samples,
    factor_credit: jax.Array,
    see: Callable[[jax.Array], Any] | None = None,
) -> dict[str, Any]:
    """Return metrics of a rollout before learning from it, for credits as in the loss, ``(N, n)``.

    With `see`, as in `Update`, the signal-to-noise ratio of gradients is that of the first `batch_size` samples.
    """
    c, returns, error = config, samples.returns, samples.returns - samples.value
    part, credit_of_some = samples, factor_credit
    if see is not None:
        part, credit_of_some = jax.tree.map(lambda x: x[: c.batch_size], (samples, factor_credit))
        part = part._replace(local=see(part.obs))
    metrics = {
        "factor/gradient_snr": gradient_snr(spec, agent, part, credit_of_some),
        "train/explained_variance": 1 - jnp.var(error) / (jnp.var(returns) + 1e-8),
    }
    if c.estimator == "factored":
        metrics["factor/credit_std"] = samples.credit.std(axis=0)
    per_factor = c.estimator == "factored" and c.critic in ("factor", "q", "reward")
    if c.critic == "target" or per_factor:
        returns, error = (x[:, : spec.n_targets] if c.critic == "target" else x for x in (returns, error))
        of = "factor" if per_factor else "target"
        metrics[f"{of}/explained_variance"] = 1 - error.var(axis=0) / (returns.var(axis=0) + 1e-8)
        metrics[f"{of}/value_error"] = jnp.sqrt((error**2).mean(axis=0))
    return metrics


def policy_metrics(
    policy_loss: jax.Array,
    *,
    entropy: jax.Array,
    kl: jax.Array,
    log_ratio: jax.Array,
    outside: jax.Array,
    acted: jax.Array,
    actions: jax.Array,
) -> dict[str, jax.Array]:
    """Return metrics of the policy on a minibatch.

    - `entropy`, `kl`: per factor, ``(N, n)``, zero if it did not act.
    - `actions`: how often each factor acted, ``(n,)``.
    - `log_ratio`, `outside`, `acted`: per ratio, ``(N, n)``, or ``(N, 1)`` for vanilla.
    """
    acting = jnp.maximum(acted.sum(), 1)
    # Sum over samples once: sums over all factors are sums of the per-factor sums.
    entropies, divergences = entropy.sum(axis=0), kl.sum(axis=0)
    return {
        "train/policy_gradient_loss": policy_loss,
        "train/entropy_loss": -entropies.sum() / len(entropy),
        "train/approx_kl": (jnp.expm1(log_ratio) - log_ratio).sum() / acting,
        "train/kl": divergences.sum() / jnp.maximum(actions.sum(), 1),
        "train/clip_fraction": outside.sum(axis=0).sum() / acting,
        "factor/entropy": entropies / jnp.maximum(actions, 1),
        "factor/kl": divergences / jnp.maximum(actions, 1),
    }
