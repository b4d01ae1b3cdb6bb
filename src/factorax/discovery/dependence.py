"""The dependence test: actions are randomised given the state, so what depends on one tells of an edge."""

from typing import Annotated

import numpy as np
from scipy import stats

from .._checks import Count, Range, Seed, check_each, check_type
from .batch import Batch
from .result import Discovery
from .score import less_baseline

_OPTIONS = {"waves": Count, "redraws": Annotated[int, Range(20)], "seed": Seed, "state_features": bool}
_FOR_ALL = 25


def dependence_test(
    batch: Batch, *, waves: int = 4, redraws: int = 100, seed: int = 0, state_features: bool = True
) -> Discovery:
    """Test whether ψⱼ depends on aᵢ given the state, in mean or in spread, in any form.

    Uᵢ = F(aᵢ|s) is uniform whatever the state. Its waves √2 cos(kπUᵢ), k = 1 … `waves`, are orthonormal and span all
    functions of the action. The target enters by two waves of its rank Rⱼ in (0, 1), g₁ = cos(πRⱼ) and g₂ = cos(2πRⱼ),
    for its level and its spread:

        Tᵢⱼ = N Σ_k Σ_l corr(√2 cos(kπUᵢ), g_l(Rⱼ))²    (and the same times each feature of the state)

    The null is known, for the policy is: mean and variance of T follow from what the waves are multiplied with, the
    mean exactly, the variance for many samples (`_moments`). What that lacks where a few samples outweigh the rest is
    measured for all pairs together: actions are drawn again from the policy, given the same states, `redraws` times,
    and T with them. The p-value is that of a Gamma distribution.

    - `state_features`: whether to look at waves times features of the state as well: an action may help in one state
      and harm in another.

    >>> from scipy import special
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=(2000, 2))
    >>> psi = np.stack([a[:, 0] ** 2, a[:, 0] * a[:, 1]], axis=1) + rng.normal(size=(2000, 2))
    >>> dependence_test(Batch(a, psi, special.ndtr(a))).found()
    array([[ True,  True],
           [False,  True]])
    """
    check_each(_OPTIONS, waves=waves, redraws=redraws, seed=seed, state_features=state_features)
    check_type("batch", batch, Batch, "a Batch, which `collect` makes")
    batch = batch.checked(least=30)
    if batch.uniforms is None:
        raise ValueError("uniforms: got None, want F(a|s), the actions through their distribution function; see Batch")
    n_samples, n, m = batch.shape
    dead, still, notes = batch.constant()
    psi, _ = less_baseline(batch.psi, batch.state)
    rank = np.pi * (stats.rankdata(psi, axis=0) - 0.5) / n_samples
    targets = np.concatenate([np.cos(rank), np.cos(2 * rank)], axis=1)
    targets = targets - targets.mean(axis=0)
    targets /= np.maximum(np.linalg.norm(targets, axis=0), 1e-12)
    features = _features(batch) if state_features else None

    def statistic(uniforms: np.ndarray) -> np.ndarray:
        total = np.zeros((uniforms.shape[1], m))
        for k in range(1, waves + 1):
            wave = np.sqrt(2) * np.cos(k * np.pi * uniforms)
            for f in range(1 + (0 if features is None else features.shape[-1])):
                x = wave if f == 0 or features is None else wave * features[..., f - 1]
                squares = (x.T @ targets) ** 2
                total += squares[:, :m] + squares[:, m:]
        return total

    observed = statistic(batch.uniforms)
    mean, variance = _moments(targets, features, waves, n)
    rng = np.random.default_rng(seed)
    # Without features the null is the same for all actions, and a few stand for all.
    columns = n if features is not None else _FOR_ALL
    square = np.zeros((columns, m))
    for _ in range(redraws):
        square += (statistic(rng.random((n_samples, columns))) - mean[:columns]) ** 2 / redraws
    live = np.outer(np.ones(columns, bool) if features is None else ~dead, ~still)
    scale = square[live].sum() / np.broadcast_to(variance[:columns], live.shape)[live].sum() if live.any() else 1.0
    variance = scale * variance
    p_value = np.asarray(stats.gamma.sf(observed, mean**2 / variance, scale=variance / mean))
    p_value[dead], p_value[:, still] = np.nan, np.nan
    notes.append(f"null by {redraws} redraws of the actions from the policy")
    unit = "squared correlations of waves and target, less those of chance"
    effect = np.maximum(observed - mean, 0.0) / n_samples
    return batch.discovery("dependence", effect, p_value, effect_unit=unit, notes=notes)


def _moments(targets: np.ndarray, features: np.ndarray | None, waves: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean of the statistic under the null, exactly, and its variance for many samples; both ``(n, m)``, or ``(1, m)``.

    With xₜ the vector of all products of a feature of the state and a wave of the target in sample t, one wave of the
    action adds |Σₜ √2 cos(kπUₜ) xₜ|², whose mean is the trace of C = Σₜ xₜxₜᵀ. Waves are uncorrelated.
    """
    m = targets.shape[1] // 2
    level, spread = targets[:, :m], targets[:, m:]
    products = [(level * level, 1), (spread * spread, 1), (level * spread, 2)]
    p = 0 if features is None else features.shape[-1]
    ones = np.ones((len(targets), 1 if features is None else n))
    columns = [ones] if features is None else [ones, *np.moveaxis(features, -1, 0)]
    trace, squares = np.zeros((ones.shape[1], m)), np.zeros((ones.shape[1], m))
    for a in range(p + 1):
        for b in range(a, p + 1):
            both = (columns[a] * columns[b]).T
            for product, times in products:
                entry = both @ product
                squares += (1 if a == b else 2) * times * entry**2
                if a == b and times == 1:
                    trace += entry
    return waves * np.maximum(trace, 1e-12), 2 * waves * np.maximum(squares, 1e-24)


def _features(batch: Batch) -> np.ndarray | None:
    """Features of the state that scores were multiplied with, ``(N, n, p − 1)``, if they were."""
    if batch.scores.ndim == 2 or batch.scores.shape[-1] == 1:
        return None
    first = batch.scores[..., :1]
    return batch.scores[..., 1:] / np.where(np.abs(first) < 1e-12, 1.0, first)
