"""The variance that the structure removes: the exact three-term decomposition of Prop. 2."""

import warnings
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import is_traced, real_array
from .._credit import credit, factor_baseline
from .._text import some, warn
from ..structure.schedule import as_fixed
from .expectations import Estimate, estimate, table
from .inputs import check_samples, shape_of
from .scores import LogProb


@dataclass(frozen=True, repr=False)
class VarianceReport:
    """ΔVᵢ = V[VPGᵢ] − V[FPGᵢ] and its terms. An `Estimate` has a ``value`` and a standard ``error`` (0 if exact)."""

    factors: tuple[str, ...]
    """Labels of the n factors."""
    alpha: Estimate
    """αᵢ = E|zᵢ|², shape ``(n,)``."""
    quadratic: Estimate
    """αᵢ E[bᵢ²] ≥ 0: the variance of the removed targets themselves, ``(n,)``."""
    linear: Estimate
    """2 E[|zᵢ|² kᵢ] E[bᵢ], ``(n,)``."""
    covariance: Estimate
    """2 Cov(|zᵢ|² kᵢ, bᵢ), ``(n,)``: the term that Prop. 2 of the paper omits."""
    delta: Estimate
    """ΔVᵢ, ``(n,)``: the difference of the next two, and the sum of the three terms if the network is correct."""
    vanilla: Estimate
    """V[zᵢ ψ], ``(n,)``."""
    factored: Estimate
    """V[zᵢ kᵢ], ``(n,)``."""
    total_vanilla: Estimate
    """V[Σᵢ zᵢ ψ], a scalar: the trace of the covariance of the whole gradient."""
    total_factored: Estimate
    """V[Σᵢ zᵢ kᵢ], a scalar."""
    total_delta: Estimate
    """The difference of the two. With shared parameters it is not the sum of ΔVᵢ, because scores overlap."""
    residual: Estimate
    """ΔVᵢ minus its three terms, ``(n,)``: zero if no dropped target depends on the factor's own action."""
    two_terms_suffice: np.ndarray
    """Whether the co-parent condition holds, ``(n,)``. If so, quadratic + linear (the paper's formula) is exact for
    this network, except for noise common to a kept and a dropped target, which adds to the covariance."""

    @property
    def ratio(self) -> float:
        """V[VPG] / V[FPG] of the whole gradient: by how many times fewer samples factoring reaches the same
        variance."""
        return float(self.total_vanilla.value / self.total_factored.value)

    def __str__(self) -> str:
        columns = ("alpha", "quadratic", "linear", "covariance", "delta", "vanilla", "factored")
        # The paper states two terms; where they do not suffice, the row says so.
        notes = ["" if holds else "  *" for holds in self.two_terms_suffice]
        lines = [f"variance of the whole gradient, vanilla / factored: {self.ratio:.3g}"]
        lines += table(self.factors, {name: getattr(self, name) for name in columns}, 20, notes)
        total = (self.total_delta, self.total_vanilla, self.total_factored)
        lines.append(f"{'all':>12}" + " " * 80 + "".join(str(t).rjust(20) for t in total))
        if not self.two_terms_suffice.all():
            lines.append("* the co-parent condition fails: the sum without the covariance term is only approximate")
        return "\n".join(lines)

    __repr__ = __str__


def variance_report(
    log_prob: LogProb,
    params: Any,
    *,
    actions: Any,
    psi: Any,
    net: Any,
    weights: Any = None,
    obs: Any = None,
    probabilities: Any = None,
    disjoint: bool = False,
) -> VarianceReport:
    """Return how much variance `net` removes from the policy gradient, by factor and in total.

    With zᵢ the score of factor i, kᵢ the sum of the targets it keeps and bᵢ the sum of those it drops,

        ΔVᵢ = αᵢ E[bᵢ²] + 2 E[|zᵢ|² kᵢ] E[bᵢ] + 2 Cov(|zᵢ|² kᵢ, bᵢ),   αᵢ = E|zᵢ|².

    This differs from Prop. 2 in the sign within the linear term (the paper prints ψ + b for ψ − b = k) and in the third
    term, which is zero only under the co-parent condition. ΔVᵢ can be negative.

    **Arguments**

    - `log_prob`, `params`, `obs`, `weights`: as in `factored`.
    - `actions`, `psi`: samples in one state, shapes ``(samples, ...)`` and ``(samples, n_targets)``, or in several
      states, ``(states, samples, ...)``. The variance is computed in each state and averaged. A rollout has only one
      sample per state and cannot be used. Centre `psi` to see the effect of a value baseline.
    - `net`: the influence network, with one row per factor.
    - `probabilities`: for exact results, the probability of each of the `actions`, which must then be all joint actions
      (`joint_actions`). By default the samples are draws from the policy, and results have standard errors.
    - `disjoint`: true if factors share no parameters, i.e. each leaf of `params` has a leading axis of length n and
      factor i reads only its own slice. One gradient per sample then suffices instead of n.

    Warns if the three terms do not add up to ΔVᵢ, which means that a dropped target depends on the factor's own action.

    >>> from factorax import InfluenceNetwork
    >>> log_prob = lambda mu, obs, a: jax.scipy.stats.norm.logpdf(a, mu, 1.0)
    >>> a = jax.random.normal(jax.random.key(0), (10_000, 3))
    >>> report = variance_report(
    ...     log_prob, jnp.zeros(3), actions=a, psi=-jnp.abs(a), net=InfluenceNetwork.identity(3), disjoint=True
    ... )
    >>> bool(report.total_delta.value > 10 * report.total_delta.error)
    True
    """
    psi = check_samples(log_prob, params, actions=actions, psi=psi, obs=obs)
    net = as_fixed(net, "net")
    functions = (_variance_first_order, _variance_features, _variance_statistics)
    samples = {"actions": actions, "obs": obs, "probabilities": probabilities, "disjoint": disjoint}
    credits = {"k": credit(net, psi, weights), "b": factor_baseline(net, psi, weights)}
    figures = estimate(functions, log_prob, params, credits, factorisation=net.factorisation, **samples)
    if any(np.ptp(np.asarray(leaf, dtype=np.float64), axis=psi.ndim - 2).any() for leaf in jax.tree.leaves(obs)):
        warn(
            "obs differs among samples that should be of one state: the variance then includes that of the states, and "
            "the three terms do not add up to it. Pass (states, samples, ...), with several actions drawn in each state"
        )
    # Dropped targets must be uncorrelated with the score, which the samples can test.
    squared_bias, noise = figures.pop("bias").value
    report = VarianceReport(net.actions, **figures, two_terms_suffice=net.coparent_condition())
    # E[zᵢ bᵢ] is zero for a correct network: up to rounding if exact, up to 5.5 standard errors if sampled. The weights
    # of a soft network are meant to bias.
    coarsest = psi.dtype if probabilities is None else jnp.asarray(probabilities).dtype
    types = (report.alpha.value.dtype, report.delta.value.dtype, coarsest)
    eps = max(np.finfo(dtype).eps for dtype in types if np.issubdtype(dtype, np.floating))
    bound = (1e3 * eps) ** 2 * (noise + report.vanilla.value)
    if probabilities is None:
        bound = bound + 30 / psi.shape[-2] * noise
    wrong = np.flatnonzero(squared_bias > bound)
    if wrong.size and not net.is_soft:
        names = some([report.factors[i] for i in wrong])
        warn(
            f"net misses an edge: a target that is dropped for factor {names} depends on its own action, so the "
            "factored gradient is biased (see bias_report)"
        )
    return report


def gradient_variance(
    log_prob: LogProb,
    params: Any,
    *,
    actions: Any,
    credits: Any,
    obs: Any = None,
    probabilities: Any = None,
    disjoint: bool = False,
) -> tuple[Estimate, Estimate]:
    """Return V[zᵢ cᵢ] per factor, shape ``(n,)``, and V[Σᵢ zᵢ cᵢ], for any credits c of shape ``(..., samples, n)``.

    Use it to compare estimators that `variance_report` does not cover, such as other baselines. Other arguments are as
    in `variance_report`.
    """
    credits = check_samples(log_prob, params, actions=actions, psi=credits, obs=obs, name="credits")
    samples = {"actions": actions, "obs": obs, "probabilities": probabilities, "disjoint": disjoint}
    return estimate((terms_of, moments_of, _any_statistics), log_prob, params, {"credits": credits}, **samples)


def nonnegative_translation(psi: Any, weights: Any = None, *, lower: Any = None, upper: Any = None) -> jax.Array:
    """Return targets shifted so that λⱼ ψⱼ ≥ 0 everywhere; then ΔVᵢ ≥ 0 for every factor (Cor. 4.1, corrected).

    The shift is ψⱼ − inf ψⱼ where λⱼ > 0, and ψⱼ − sup ψⱼ where λⱼ < 0. Constants do not bias the gradient, and with
    all kᵢ, bᵢ ≥ 0 the terms of ΔVᵢ = αᵢ E[bᵢ²] + 2 E[|zᵢ|² kᵢ bᵢ] cannot be negative. The two versions in the paper,
    in the statement and in the proof, do not hold.

    The inequality is strict for a factor that drops a target if αᵢ > 0 and ε sign(λⱼ) is added to each shifted target:
    ΔVᵢ ≥ αᵢ ε² (Σ |λⱼ| over the dropped j)². The paper's footnote overlooks factors that drop no target.

    The comparison is with the vanilla gradient *of the shifted targets*, which can have a thousand times the variance
    of the original one; a warning is issued. Use the shift to understand ΔV, not to train.

    **Arguments**

    - `psi`: targets, shape ``(..., n_targets)``.
    - `weights`: λ, shape ``(n_targets,)``.
    - `lower`, `upper`: inf and sup of each target, ``(n_targets,)``. The default is the range of the batch, which is
      correct only if the batch contains every joint action.
    """
    values = real_array("psi", psi, jnp)
    if values.ndim == 0 or 0 in values.shape:
        raise ValueError(f"psi: got {shape_of(psi)}, want (..., n_targets) with at least one sample")
    m = values.shape[-1]
    lam = jnp.ones(m) if weights is None else real_array("weights", weights, jnp)
    lowest = values.reshape(-1, m).min(axis=0) if lower is None else real_array("lower", lower, jnp)
    highest = values.reshape(-1, m).max(axis=0) if upper is None else real_array("upper", upper, jnp)
    for name, bound in (("weights", lam), ("lower", lowest), ("upper", highest)):
        if bound.shape != (m,):
            raise ValueError(f"{name}: got {shape_of(bound)}, want ({m},), one per target")
    # Swapped bounds would shift targets to the wrong side without any sign of it.
    if not is_traced(lowest) and not is_traced(highest) and (np.asarray(lowest) > np.asarray(highest)).any():
        raise ValueError(f"lower, upper: got {lowest.tolist()} and {highest.tolist()}, want lower ≤ upper")
    warnings.warn(
        "ΔV is non-negative only relative to the vanilla gradient of the *shifted* targets, which can have far more "
        "variance than the original; use the translation as a diagnostic, not for training",
        stacklevel=2,
    )
    return values - jnp.where(lam >= 0, lowest, highest)


def terms_of(z: jax.Array, add: Any, credits: jax.Array, name: str = "any") -> dict[str, jax.Array]:
    """Return the terms zᵢ cᵢ of a gradient, ``(n, p)``, and their sum."""
    terms = z * credits[:, None]
    return {f"{name}_terms": terms, f"{name}_whole": add(terms)}


def moments_of(
    z: jax.Array, add: Any, centre: dict[str, jax.Array], credits: jax.Array, name: str = "any"
) -> dict[str, jax.Array]:
    """Return first and second moments of the terms and of their sum about a centre."""
    # About a centre: E[x²] − E[x]² of targets with a large mean would be lost in rounding.
    away = {key: value - centre[key] for key, value in terms_of(z, add, credits, name).items()}
    terms, whole = away[f"{name}_terms"], away[f"{name}_whole"]
    return away | {f"{name}_terms_squared": (terms**2).sum(axis=1), f"{name}_whole_squared": (whole**2).sum()}


def spreads(mean: dict[str, jax.Array], name: str, samples: int | None) -> tuple[jax.Array, jax.Array]:
    """Return V[zᵢ cᵢ] per factor and V of their sum, given the means of `moments_of`; unbiased for samples."""
    terms = mean[f"{name}_terms_squared"] - (mean[f"{name}_terms"] ** 2).sum(axis=1)
    whole = mean[f"{name}_whole_squared"] - (mean[f"{name}_whole"] ** 2).sum()
    return bessel(samples) * terms, bessel(samples) * whole


def bessel(samples: int | None) -> float:
    """Return N / (N − 1), which makes a sample (co)variance unbiased, or 1 if it is exact."""
    return 1.0 if samples is None else samples / (samples - 1)


def _any_statistics(
    mean: dict[str, jax.Array], centre: dict[str, jax.Array], samples: int | None
) -> tuple[jax.Array, jax.Array]:
    return spreads(mean, "any", samples)


def _variance_first_order(z: jax.Array, add: Any, k: jax.Array, b: jax.Array) -> dict[str, jax.Array]:
    norm_k = (z**2).sum(axis=1) * k
    return {"norm_k": norm_k, "b": b} | terms_of(z, add, k + b, "vanilla") | terms_of(z, add, k, "factored")


def _variance_features(
    z: jax.Array, add: Any, centre: dict[str, jax.Array], k: jax.Array, b: jax.Array
) -> dict[str, jax.Array]:
    norm = (z**2).sum(axis=1)
    norm_k_away, b_away = norm * k - centre["norm_k"], b - centre["b"]
    products = {
        "norm": norm,
        "norm_k": norm_k_away,
        "b": b_away,
        "b_squared": b**2,
        "norm_k_b": norm_k_away * b_away,
        "norm_b_squared": norm * b**2,
    }
    return products | moments_of(z, add, centre, k + b, "vanilla") | moments_of(z, add, centre, k, "factored")


def _variance_statistics(
    mean: dict[str, jax.Array], centre: dict[str, jax.Array], samples: int | None
) -> dict[str, jax.Array]:
    vanilla, total_vanilla = spreads(mean, "vanilla", samples)
    factored, total_factored = spreads(mean, "factored", samples)
    quadratic = mean["norm"] * mean["b_squared"]
    covariance = 2 * bessel(samples) * (mean["norm_k_b"] - mean["norm_k"] * mean["b"])
    linear = 2 * (centre["norm_k"] + mean["norm_k"]) * (centre["b"] + mean["b"])
    # both means come from the same samples and are correlated
    linear = linear - (0 if samples is None else covariance / samples)
    delta = vanilla - factored
    means = {name: centre[name] + mean[name] for name in ("vanilla_terms", "factored_terms")}
    dropped = means["vanilla_terms"] - means["factored_terms"]
    return {
        "alpha": mean["norm"],
        "quadratic": quadratic,
        "linear": linear,
        "covariance": covariance,
        "delta": delta,
        "vanilla": vanilla,
        "factored": factored,
        "total_vanilla": total_vanilla,
        "total_factored": total_factored,
        "total_delta": total_vanilla - total_factored,
        "residual": delta - quadratic - linear - covariance,
        "bias": jnp.stack([(dropped**2).sum(axis=1), mean["norm_b_squared"]]),  # |E[zᵢ bᵢ]|² and E|zᵢ bᵢ|²
    }
