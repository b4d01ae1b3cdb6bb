"""Bias of the gradient under one network relative to another, and the batch sizes at which the bias pays off."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from .._checks import Positive, checked
from .._credit import credit
from ..structure.schedule import as_fixed
from .expectations import Estimate, estimate, table
from .inputs import check_samples
from .scores import LogProb
from .variance import moments_of, spreads, terms_of


@dataclass(frozen=True, repr=False)
class BiasReport:
    """The bias of a network relative to a reference, and the variance of both. Figures are `Estimate` objects.

    An `Estimate` has a ``value`` and a standard ``error``.
    """

    factors: tuple[str, ...]
    """Labels of the n factors."""
    squared: Estimate
    """|E[zᵢ (kᵢ − kᵢʳᵉᶠ)]|², shape ``(n,)``. From samples it is an unbiased estimate, which may be negative."""
    total_squared: Estimate
    """Squared bias of the whole gradient, a scalar."""
    variance: Estimate
    """V[Σᵢ zᵢ kᵢ], a scalar."""
    reference_variance: Estimate
    """V[Σᵢ zᵢ kᵢʳᵉᶠ], a scalar."""

    def mse(self, batch_size: float) -> float:
        """Return the mean squared error of the gradient from `batch_size` samples: variance / batch_size + squared
        bias."""
        checked("batch_size", batch_size, Positive)
        # Without its noise, an estimate of a square may be negative; an error may not.
        return float(self.variance.value / batch_size + max(self.total_squared.value, 0.0))

    def reference_mse(self, batch_size: float) -> float:
        """Return the mean squared error with the reference network, which is taken as unbiased."""
        checked("batch_size", batch_size, Positive)
        return float(self.reference_variance.value / batch_size)

    @property
    def break_even(self) -> float:
        """The batch size up to which this network has the smaller error; infinite if it has less variance and no
        bias."""
        gain = float(self.reference_variance.value - self.variance.value)
        bias = float(self.total_squared.value)
        # Without a gain in variance no batch is small enough.
        if gain <= 0 or bias != bias:  # NaN in, NaN out
            return bias if bias != bias else 0.0
        # An exact bias of zero comes out as a rounding error.
        return gain / bias if bias > 1e-12 * gain else float("inf")

    def __str__(self) -> str:
        lines = table(self.factors, {"|bias|²": self.squared}, 24)
        lines.append(f"{'all':>12}{self.total_squared!s:>24}")
        lines.append(f"variance of the whole gradient: {self.variance}; of the reference: {self.reference_variance}")
        lines.append(f"smaller mean squared error than the reference up to a batch of {self.break_even:.4g}")
        if self.total_squared.value < 2 * self.total_squared.error:
            lines.append("the bias is within two standard errors of zero: use more samples to resolve it")
        return "\n".join(lines)

    __repr__ = __str__


def bias_report(
    log_prob: LogProb,
    params: Any,
    *,
    actions: Any,
    psi: Any,
    net: Any,
    reference: Any,
    weights: Any = None,
    obs: Any = None,
    probabilities: Any = None,
    disjoint: bool = False,
) -> BiasReport:
    """Return the bias of the gradient with `net` relative to `reference`; both have the same factors and targets.

    The bias of factor i is exactly E[zᵢ (kᵢ − kᵢʳᵉᶠ)] = −E[zᵢ Σ_missing λⱼ ψⱼ]. The complete network is always an
    unbiased reference; a correct sparse network is also unbiased and has less variance. Arguments are as in
    `variance_report`. With several states, the figures are means over states, and `mse` and `break_even` refer to
    gradients taken in one state.

    >>> import jax.numpy as jnp
    >>> from factorax import InfluenceNetwork
    >>> log_prob = lambda mu, obs, a: jax.scipy.stats.norm.logpdf(a, mu, 1.0)
    >>> a = jax.random.normal(jax.random.key(0), (10_000, 2))
    >>> psi = jnp.stack([a[:, 0], a[:, 0] + a[:, 1]], axis=1)  # the identity misses a₁ → ψ₂
    >>> net, reference = InfluenceNetwork.identity(2), InfluenceNetwork.complete(2, 2)
    >>> report = bias_report(log_prob, jnp.zeros(2), actions=a, psi=psi, net=net, reference=reference)
    >>> bool(report.squared.value[0] > 0.9 > report.squared.value[1])
    True
    """
    psi = check_samples(log_prob, params, actions=actions, psi=psi, obs=obs)
    net, reference = as_fixed(net, "net"), as_fixed(reference, "reference")
    if net.shape != reference.shape:
        raise ValueError(f"reference: got shape {reference.shape}, want {net.shape}, the shape of net")
    # The reference has the same factors, so that one set of scores serves all three gradients.
    functions = (_first_order, _features, _statistics)
    samples = {"actions": actions, "obs": obs, "probabilities": probabilities, "disjoint": disjoint}
    credits = {"k": credit(net, psi, weights), "k_ref": credit(reference, psi, weights)}
    figures = estimate(functions, log_prob, params, credits, factorisation=net.factorisation, **samples)
    return BiasReport(net.actions, **figures)


def _first_order(z: jax.Array, add: Any, k: jax.Array, k_ref: jax.Array) -> dict[str, jax.Array]:
    return terms_of(z, add, k - k_ref, "bias") | terms_of(z, add, k, "net") | terms_of(z, add, k_ref, "ref")


def _features(
    z: jax.Array, add: Any, centre: dict[str, jax.Array], k: jax.Array, k_ref: jax.Array
) -> dict[str, jax.Array]:
    moments = partial(moments_of, z, add, centre)
    return moments(k - k_ref, "bias") | moments(k, "net") | moments(k_ref, "ref")


def _statistics(mean: dict[str, jax.Array], centre: dict[str, jax.Array], samples: int | None) -> dict[str, jax.Array]:
    squared = ((centre["bias_terms"] + mean["bias_terms"]) ** 2).sum(axis=1)
    total = ((centre["bias_whole"] + mean["bias_whole"]) ** 2).sum()
    if samples is not None:  # the squared sample mean is biased upwards: subtract its variance
        noise, total_noise = spreads(mean, "bias", samples)
        squared, total = squared - noise / samples, total - total_noise / samples
    return {
        "squared": squared,
        "total_squared": total,
        "variance": spreads(mean, "net", samples)[1],
        "reference_variance": spreads(mean, "ref", samples)[1],
    }
