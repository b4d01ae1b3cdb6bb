"""Estimates with confidence intervals: means, interquartile means, and probabilities of improvement."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy  # its submodules are slow to import and are loaded on first use

from .._checks import Seed, checked, real_array
from .._text import shown

RESAMPLES = 2000
"""Number of bootstrap resamples."""


@dataclass(frozen=True)
class Interval:
    """An estimate with a two-sided confidence interval."""

    mean: float
    low: float
    high: float

    def __post_init__(self) -> None:
        for name in ("mean", "low", "high"):
            if isinstance(getattr(self, name), bool | str) or not isinstance(getattr(self, name), Real):
                raise TypeError(f"{name}: got {shown(getattr(self, name))}, want a number")
        if self.low > self.high:
            raise ValueError(f"low, high: got {self.low} and {self.high}, want low ≤ high")

    def __str__(self) -> str:
        return f"{short_number(self.mean)} [{short_number(self.low)}, {short_number(self.high)}]"

    def __truediv__(self, other: "Interval") -> "Interval":
        """Return the ratio of two positive estimates, with an interval by the MOVER method (Zou and Donner, 2008).

        On the logarithmic scale the distances to the limits are added in quadrature. The samples are assumed
        independent; if they share noise, the interval is too wide rather than too narrow.
        """
        ratio = self.mean / other.mean
        below = math.hypot(math.log(self.mean / self.low), math.log(other.high / other.mean))
        above = math.hypot(math.log(self.high / self.mean), math.log(other.mean / other.low))
        return Interval(ratio, ratio * math.exp(-below), ratio * math.exp(above))


def short_number(x: float) -> str:
    """Return a number with three digits, or all digits of a number of thousands.

    >>> short_number(-49.123), short_number(12345.6)
    ('-49.1', '12,346')
    """
    return f"{x:,.0f}" if 1000 <= abs(x) < 1e7 else f"{x:.3g}"


def normal_mean(samples: Any, confidence: float = 0.95) -> Interval:
    """Return the mean of samples of any sign, with Student's t interval.

    >>> normal_mean([1.0, 3.0])
    Interval(mean=2.0, low=..., high=...)
    """
    x = checked_samples(samples)
    check_options(confidence)
    mean = float(x.mean())
    if len(x) < 2:  # no spread to estimate an interval from; callers show it without one
        return Interval(mean, mean, mean)
    half = student_quantile(confidence, len(x)) * float(x.std(ddof=1)) / math.sqrt(len(x))
    return Interval(mean, mean - half, mean + half)


def interquartile_mean(x: np.ndarray) -> float:
    """Return the mean of the middle half of the samples."""
    return float(scipy.stats.trim_mean(x, 0.25))


def iqm(samples: Any, confidence: float = 0.95, seed: int = 0) -> Interval:
    """Return the interquartile mean with a percentile-bootstrap interval (Agarwal et al., 2021)."""
    x = checked_samples(samples)
    check_options(confidence, seed)
    # Always the same resamples by default, so that a report that is written twice shows the same interval.
    rng = np.random.default_rng(seed)
    boot = scipy.stats.trim_mean(rng.choice(x, (RESAMPLES, len(x))), 0.25, axis=1)
    low, high = np.quantile(boot, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(interquartile_mean(x), float(low), float(high))


def iqm_difference(a: Any, b: Any, confidence: float = 0.95, seed: int = 0) -> Interval:
    """Return IQM(a) − IQM(b) with a percentile-bootstrap interval, `a` and `b` resampled independently.

    If both share seeds and therefore noise, the interval is too wide rather than too narrow.

    >>> iqm_difference([3.0, 3.0], [1.0, 1.0])
    Interval(mean=2.0, low=2.0, high=2.0)
    """
    a, b = checked_samples(a, "a"), checked_samples(b, "b")
    check_options(confidence, seed)
    rng = np.random.default_rng(seed)
    boot = [scipy.stats.trim_mean(rng.choice(x, (RESAMPLES, len(x))), 0.25, axis=1) for x in (a, b)]
    low, high = np.quantile(boot[0] - boot[1], [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(interquartile_mean(a) - interquartile_mean(b), float(low), float(high))


def probability_of_improvement(a: Any, b: Any, confidence: float = 0.95, seed: int = 0) -> Interval:
    """Return P(a > b) over pairs of seeds, ties counting half, with a percentile-bootstrap interval.

    >>> probability_of_improvement([2.0, 3.0], [0.0, 1.0]).mean
    1.0
    """
    a, b = checked_samples(a, "a"), checked_samples(b, "b")
    check_options(confidence, seed)

    def wins(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return (np.sign(a[..., :, None] - b[..., None, :]) / 2 + 0.5).mean(axis=(-2, -1))

    # Seeds are resampled, not pairs: pairs that share a seed are not independent.
    rng = np.random.default_rng(seed)
    boot = wins(rng.choice(a, (RESAMPLES, len(a))), rng.choice(b, (RESAMPLES, len(b))))
    low, high = np.quantile(boot, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(wins(a, b)), float(low), float(high))


def student_quantile(confidence: float, samples: int) -> float:
    """Return the two-sided quantile of Student's distribution for this number of samples."""
    return float(scipy.stats.t.ppf((1 + confidence) / 2, samples - 1))


def checked_samples(samples: Any, argument: str = "samples") -> np.ndarray:
    """Return a list of finite numbers as an array; raise ValueError for anything else."""
    x = real_array(argument, samples, finite=False).astype(np.float64)
    if x.ndim != 1 or not len(x) or not np.isfinite(x).all():
        raise ValueError(
            f"{argument}: got {shown(samples)}, want a list of finite numbers; exclude diverged runs and count them "
            "separately"
        )
    return x


def check_options(confidence: float, seed: int = 0) -> None:
    """Raise if a confidence is not a fraction, or a seed is not a seed."""
    if not 0 < checked("confidence", confidence, float) < 1:
        raise ValueError(f"confidence: got {confidence}, want a fraction such as 0.95")
    checked("seed", seed, Seed)
