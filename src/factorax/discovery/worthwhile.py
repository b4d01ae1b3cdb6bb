"""Worthwhile edges: those for which the bias of leaving them out exceeds the noise of keeping them."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from .._checks import Count, check_type, checked
from ..structure import InfluenceNetwork
from .batch import Batch


@dataclass(frozen=True, eq=False)
class Worth:
    """Bias without and variance with each edge, ``(n, m)`` each."""

    squared_bias: np.ndarray
    """|E[zᵢ λⱼ ψⱼ]|², the squared bias without the edge: its expectation given the data."""
    variance: np.ndarray
    """V[zᵢ λⱼ ψⱼ] of one sample (trace); keeping the edge adds this divided by the number of samples."""
    share: float
    """Estimated fraction of pairs that have an edge."""


def worth(batch: Batch) -> Worth:
    """Estimate bias and variance of each edge, the bias with shrinkage.

    With ĝᵢⱼ the mean of zᵢ λⱼ ψⱼ and s its standard error, |ĝ|² overestimates the bias of absent edges by s². Instead,
    t = ĝ/s is modelled as drawn from (1 − π) N(0, 1) + π N(0, 1 + τ²), for absent and present edges, with π and τ²
    fitted to all pairs by maximum likelihood, and E[g² | t] = s² P(present | t) (κ² t² + κ), κ = τ²/(1 + τ²).
    """
    batch = batch.checked()
    n_samples, n, m = batch.shape
    # Centred, because a constant adds variance to both sides that no edge is responsible for.
    psi = batch.psi - batch.psi.mean(axis=0)
    psi = psi if batch.weights is None else psi * np.asarray(batch.weights)
    scores = batch.scores if batch.scores.ndim == 3 else batch.scores[..., None]
    width = scores.shape[-1]
    t, error = np.zeros((width, n, m)), np.zeros((width, n, m))
    for k in range(width):
        z = np.ascontiguousarray(scores[..., k])
        mean = z.T @ psi / n_samples
        second = (z * z).T @ (psi * psi) / n_samples
        error[k] = np.sqrt(np.maximum(second - mean**2, 0.0) / (n_samples - 1))
        t[k] = mean / np.maximum(error[k], 1e-300) * (error[k] > 0)
    share, spread = _fit(t.ravel())
    shrink = spread / (1 + spread)
    # By components of the score, whose squares add up.
    bias = (error**2 * _present(t, share, spread) * (shrink**2 * t**2 + shrink)).sum(axis=0)
    return Worth(bias, (error**2).sum(axis=0) * n_samples, share)


def worthwhile_network(batch: Batch, *, n_samples: int, form: Literal["hard", "soft"] = "hard") -> InfluenceNetwork:
    """Return the network with the smallest mean squared error of the gradient from `n_samples` samples, edge by edge.

    Hard: an edge is kept if bias²ᵢⱼ > varianceᵢⱼ / N. Soft: its weight is bias² / (bias² + variance / N), which
    minimises (1 − w)² bias² + w² variance / N. The covariance between targets of one factor is neglected.

    - `batch`: samples to estimate from; its `scores` are those of the gradient.
    - `n_samples`: N, the number of samples in a batch of the later gradient; may be more or fewer.

    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=(20_000, 2))
    >>> batch = Batch(a, a @ np.array([[1.0, 0.1], [0.0, 1.0]]) + rng.normal(size=(20_000, 2)))
    >>> [worthwhile_network(batch, n_samples=n).n_edges for n in (50, 2000)]  # the weak edge pays in a large batch
    [2, 3]
    """
    check_type("batch", batch, Batch, "a Batch, as returned by `collect`")
    checked("form", form, Literal["hard", "soft"])
    checked("n_samples", n_samples, Count)
    estimate = worth(batch)
    noise = estimate.variance / n_samples
    if form == "hard":
        matrix = estimate.squared_bias > noise
    else:
        matrix = estimate.squared_bias / np.maximum(estimate.squared_bias + noise, 1e-300)
    return InfluenceNetwork(matrix, batch.actions or None, batch.targets or None)


def _present(t: np.ndarray, share: float, spread: float) -> np.ndarray:
    """Return P(present | t), the probability of an edge given its statistic."""
    with np.errstate(over="ignore"):
        odds = (1 - share) / share * np.sqrt(1 + spread) * np.exp(-(t**2) / 2 * spread / (1 + spread))
    return 1 / (1 + odds)


def _fit(t: np.ndarray, rounds: int = 200) -> tuple[float, float]:
    """Return π and τ², fitted by expectation–maximisation and bounded away from their limits."""
    share, spread = 0.2, max(float((t**2).mean()), 2.0)
    # At a share of 0 or 1 the iteration could never leave it.
    least = 1 / (len(t) + 1)
    for _ in range(rounds):
        present = _present(t, share, spread)
        share = float(np.clip(present.mean(), least, 1 - least))
        spread = max(float((present * t**2).sum() / present.sum()) - 1, 0.1)
    return share, spread
