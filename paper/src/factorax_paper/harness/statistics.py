"""Statistics of the experiments: means of Gamma-distributed samples as in the paper, shares, and aggregates of several
problems."""

import math
from typing import Annotated, Any

import numpy as np
import scipy  # its submodules are slow to import and are loaded on first use

from factorax._checks import Count, Range, checked, real_array
from factorax._text import shown
from factorax.runs.statistics import (
    RESAMPLES,
    Interval,
    check_options,
    checked_samples,
    interquartile_mean,
    normal_mean,
    student_quantile,
)


def gamma_mean(samples: Any, confidence: float = 0.95) -> Interval:
    """Return the mean of samples from a Gamma distribution, with a profile-likelihood interval.

    The maximum-likelihood mean is the sample mean x̄. The interval contains the means μ that are not rejected by twice
    the log-likelihood ratio, maximised over the shape,

        2 (ℓ(x̄) − ℓ(μ)) ≤ N log(1 + t² / (N − 1)),

    where t is the two-sided quantile of Student's distribution. It is exact for a large shape, where the Gamma
    distribution is normal, and close to the stated confidence otherwise (see the tests).

    Samples must not be negative. Equal samples, or a single one, give an interval of zero width. A zero is replaced by
    the smallest number that single precision can resolve next to the mean.

    >>> gamma_mean([1.0, 2.0, 3.0, 4.0])
    Interval(mean=2.5, low=..., high=...)
    """
    x = checked_samples(samples)
    check_options(confidence)
    if (x < 0).any():
        raise ValueError(f"samples: got {x.min()}, want numbers ≥ 0, as of a Gamma distribution")
    mean = float(x.mean())
    if len(x) < 2 or x.std() <= 1e-4 * mean:  # the shape is so large that the Gamma distribution is normal
        return normal_mean(x, confidence)
    x = np.maximum(x, float(np.finfo(np.float32).eps) * mean)
    mean_log = float(np.log(x).mean())
    x_bar = float(x.mean())
    bound = math.log1p(student_quantile(confidence, len(x)) ** 2 / (len(x) - 1)) / 2
    best = _profile(x_bar, x_bar, mean_log)

    def excess(log_ratio: float) -> float:
        return best - _profile(x_bar * math.exp(log_ratio), x_bar, mean_log) - bound

    def limit(sign: float) -> float:
        edge = sign
        while excess(edge) < 0:
            edge *= 2
        return x_bar * math.exp(scipy.optimize.brentq(excess, 0.0, edge))

    return Interval(mean, limit(-1.0), limit(1.0))


def gamma_shape(spread: float) -> float:
    """Return the maximum-likelihood shape k of a Gamma distribution.

    k solves log k − digamma(k) = `spread`, with `spread` = log x̄ − mean log x.
    """
    # 1/(2k) < log k − digamma(k) < 1/k brackets the root.
    return float(
        scipy.optimize.brentq(
            lambda k: math.log(k) - scipy.special.digamma(k) - spread, 0.49 / spread, 1.01 / spread, rtol=1e-12
        )
    )


def _profile(mean: float, x_bar: float, mean_log: float) -> float:
    """Return the mean log-likelihood per sample at this mean and the best shape for it.

    log f = k log(k/μ) − log Γ(k) + (k − 1) log x − k x/μ, with its maximum at log k − digamma(k) = log μ − mean log x
    + x̄/μ − 1.
    """
    k = gamma_shape(math.log(mean) - mean_log + x_bar / mean - 1)
    return k * math.log(k / mean) - float(scipy.special.gammaln(k)) + (k - 1) * mean_log - k * x_bar / mean


def binomial_share(hits: int, trials: int, confidence: float = 0.95) -> Interval:
    """Return the fraction of trials that were hits, with the exact interval of Clopper and Pearson (1934).

    The interval contains the true fraction with at least this confidence, for any number of trials.

    >>> print(binomial_share(0, 100))
    0 [0, 0.0362]
    """
    checked("trials", trials, Count)
    checked("hits", hits, Annotated[int, Range(0, trials)])
    check_options(confidence)
    tail = (1 - confidence) / 2
    low = float(scipy.stats.beta.ppf(tail, hits, trials - hits + 1)) if hits else 0.0
    high = float(scipy.stats.beta.isf(tail, hits + 1, trials - hits)) if hits < trials else 1.0
    return Interval(hits / trials, low, high)


def aggregate_iqm(scores: Any, confidence: float = 0.95, seed: int = 0) -> Interval:
    """Return the interquartile mean over all runs of all problems, with a stratified-bootstrap interval.

    As in rliable (Agarwal et al., 2021), runs are resampled within each problem, and the interquartile mean is taken
    over the runs of all problems together.

    - `scores`: normalised scores, ``(problems, runs)``.

    >>> aggregate_iqm([[0.0, 1.0], [1.0, 2.0]]).mean
    1.0
    """
    x = _matrix(scores, "scores")
    check_options(confidence, seed)
    boot = scipy.stats.trim_mean(_resampled(x, seed).reshape(RESAMPLES, -1), 0.25, axis=1)
    low, high = np.quantile(boot, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(interquartile_mean(x.ravel()), float(low), float(high))


def aggregate_improvement(a: Any, b: Any, confidence: float = 0.95, seed: int = 0) -> Interval:
    """Return P(a > b) for runs on the same problem, averaged over problems, with a stratified-bootstrap interval.

    - `a`, `b`: scores ``(problems, runs)`` of two methods; ties count half.

    >>> aggregate_improvement([[2.0, 3.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, 0.0]]).mean
    0.75
    """
    x, y = _matrix(a, "a"), _matrix(b, "b")
    check_options(confidence, seed)
    if len(x) != len(y):
        raise ValueError(f"b: got {len(y)} problems, want {len(x)}, as in a")

    def wins(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (np.sign(x[..., :, None] - y[..., None, :]) / 2 + 0.5).mean(axis=(-3, -2, -1))

    boot = wins(_resampled(x, seed), _resampled(y, seed + 1))
    low, high = np.quantile(boot, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(wins(x, y)), float(low), float(high))


def performance_profile(scores: Any, thresholds: Any) -> np.ndarray:
    """Return the fraction of runs with a score above each threshold, averaged over problems.

    - `scores`: ``(problems, runs)``; `thresholds`: ``(k,)``.

    >>> performance_profile([[0.2, 0.8], [0.5, 0.9]], [0.0, 0.5]).tolist()
    [1.0, 0.5]
    """
    x, levels = _matrix(scores, "scores"), checked_samples(thresholds, "thresholds")
    return (x[..., None] > levels).mean(axis=(0, 1))


def _resampled(x: np.ndarray, seed: int) -> np.ndarray:
    """Return runs resampled within each problem, ``(resamples, problems, runs)``."""
    rng = np.random.default_rng(seed)
    picks = rng.integers(x.shape[1], size=(RESAMPLES, *x.shape))
    return np.take_along_axis(np.broadcast_to(x, picks.shape), picks, axis=-1)


def _matrix(scores: Any, argument: str) -> np.ndarray:
    x = real_array(argument, scores, finite=False).astype(np.float64)
    if x.ndim != 2 or not x.size or not np.isfinite(x).all():
        raise ValueError(
            f"{argument}: got {shown(scores)}, want finite numbers of shape (problems, runs), with the same number "
            "of runs per problem"
        )
    return x
