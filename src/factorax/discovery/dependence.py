"""The dependence test: actions are randomised given the state, so dependence on an action shows an edge."""

import numpy as np
from scipy import stats

from .._checks import Count, check_each, check_type
from .batch import Batch
from .null_moments import null_moments
from .result import Discovery
from .score import less_baseline

_OPTIONS = {"waves": Count, "state_features": bool}


def dependence_test(batch: Batch, *, waves: int = 4, state_features: bool = True) -> Discovery:
    """Test whether ψⱼ depends on aᵢ given the state, in mean or in spread, in any form.

    Uᵢ = F(aᵢ|s) is uniform in any state. Its waves √2 cos(kπUᵢ), k = 1 … `waves`, are orthonormal and span all
    functions of the action. The target enters by two waves of its rank Rⱼ in (0, 1), g₁ = cos(πRⱼ) and g₂ = cos(2πRⱼ),
    for its level and its spread:

        Tᵢⱼ = N Σ_k Σ_l corr(√2 cos(kπUᵢ), g_l(Rⱼ))²    (and the same times each feature of the state)

    The null distribution is known, because the policy is: mean, variance and third cumulant of T follow exactly, for
    each pair and any number of samples, from what the waves are multiplied with (`null_moments`). The p-value is that
    of a shifted Gamma distribution with these three moments.

    - `waves`: number of waves of each action.
    - `state_features`: whether to also test waves times features of the state, since an action may help in one state
      and harm in another.

    >>> from scipy import special
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=(2000, 2))
    >>> psi = np.stack([a[:, 0] ** 2, a[:, 0] * a[:, 1]], axis=1) + rng.normal(size=(2000, 2))
    >>> dependence_test(Batch(a, psi, special.ndtr(a))).found()
    array([[ True,  True],
           [False,  True]])
    """
    check_each(_OPTIONS, waves=waves, state_features=state_features)
    check_type("batch", batch, Batch, "a Batch, as returned by `collect`")
    batch = batch.checked(least=30, uniforms=True)
    assert batch.uniforms is not None
    n_samples, n, m = batch.shape
    dead, still, notes = batch.constant()
    psi, _ = less_baseline(batch.psi, batch.state)
    rank = np.pi * (stats.rankdata(psi, axis=0) - 0.5) / n_samples
    targets = np.concatenate([np.cos(rank), np.cos(2 * rank)], axis=1)
    targets = targets - targets.mean(axis=0)
    targets /= np.maximum(np.linalg.norm(targets, axis=0), 1e-12)
    features = _features(batch) if state_features else None

    observed = np.zeros((n, m))
    for k in range(1, waves + 1):
        wave = np.sqrt(2) * np.cos(k * np.pi * batch.uniforms)
        for f in range(1 + (0 if features is None else features.shape[-1])):
            x = wave if f == 0 or features is None else wave * features[..., f - 1]
            squares = (x.T @ targets) ** 2
            observed += squares[:, :m] + squares[:, m:]
    mean, variance, third = null_moments(targets, features, waves)
    p_value = _tail(observed, mean, variance, third)
    p_value[dead], p_value[:, still] = np.nan, np.nan
    unit = "squared correlations of waves and target, minus those expected by chance"
    effect = np.maximum(observed - mean, 0.0) / n_samples
    return batch.discovery("dependence", effect, p_value, effect_unit=unit, notes=notes)


def _tail(observed: np.ndarray, mean: np.ndarray, variance: np.ndarray, third: np.ndarray) -> np.ndarray:
    """Return P(T > observed) for a shifted Gamma distribution with this mean, variance and third cumulant."""
    variance = np.maximum(variance, 1e-24)
    third = np.maximum(third, 1e-3 * variance**1.5)  # it is 0 for a normal distribution
    shape, scale = 4 * variance**3 / third**2, third / (2 * variance)
    return np.asarray(stats.gamma.sf(observed - (mean - shape * scale), shape, scale=scale))


def _features(batch: Batch) -> np.ndarray | None:
    """Return the features of the state by which scores were multiplied, ``(N, n, p − 1)``, if any."""
    if batch.scores.ndim == 2 or batch.scores.shape[-1] == 1:
        return None
    first = batch.scores[..., :1]
    return batch.scores[..., 1:] / np.where(np.abs(first) < 1e-12, 1.0, first)
