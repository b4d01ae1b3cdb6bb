"""The dependence test: actions are randomised given the state, so dependence on an action shows an edge."""

from collections import Counter
from itertools import combinations_with_replacement, product
from math import factorial, prod

import numpy as np
from scipy import stats

from .._checks import Count, check_each, check_type
from .batch import Batch
from .result import Discovery
from .score import without_baseline

MAX_BLOCK = 2**23
"""Maximum size of the matrices of one block of actions: 64 MB each."""
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
    constant_actions, constant_targets, notes = batch.constant()
    psi, _ = without_baseline(batch.psi, batch.state)
    # Ranks bound the influence of single samples, whatever the distribution of the targets.
    rank = np.pi * (stats.rankdata(psi, axis=0) - 0.5) / n_samples
    targets = np.concatenate([np.cos(rank), np.cos(2 * rank)], axis=1)
    targets = targets - targets.mean(axis=0)
    targets /= np.maximum(np.linalg.norm(targets, axis=0), 1e-12)
    features = _features(batch) if state_features else None

    observed = np.zeros((n, m))
    # One product per wave and feature: all of them at once would need K times the memory of the batch.
    for k in range(1, waves + 1):
        wave = np.sqrt(2) * np.cos(k * np.pi * batch.uniforms)
        for f in range(1 + (0 if features is None else features.shape[-1])):
            x = wave if f == 0 or features is None else wave * features[..., f - 1]
            squares = (x.T @ targets) ** 2
            observed += squares[:, :m] + squares[:, m:]
    # Exact moments instead of permutations: these would take thousands of passes for n · m small p-values.
    mean, variance, third = null_moments(targets, features, waves)
    p_value = _tail(observed, mean, variance, third)
    p_value[constant_actions], p_value[:, constant_targets] = np.nan, np.nan
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


def null_moments(targets: np.ndarray, features: np.ndarray | None, waves: int) -> np.ndarray:
    """Return mean, variance and third cumulant of Q = Σₖ |Σₜ wₖ(t) xₜ|² under the null, ``(3, n, m)``.

    n is 1 without features. xₜ is the vector of all products of a feature of the state (or 1) and a wave of the target
    in sample t, and wₖ(t) = √2 cos(kπUₜ), k = 1 … K. Given states and targets, the Uₜ are independent and uniform if
    there is no edge. With
        C = Σₜ xₜxₜᵀ,    D = Σₜ |xₜ|² xₜxₜᵀ,    q = |Σₜ |xₜ|² xₜ|²,    h = |Σₜ xₜ⊗xₜ⊗xₜ|²,    sᵣ = Σₜ |xₜ|²ʳ,

    and c the number of ordered triples of waves in which one is the sum of the two others,

        E Q  = K tr C
        V Q  = K (2 tr C² − 3/2 s₂)
        κ₃ Q = 8K (tr C³ − 3 tr CD + 2 s₃) + 6K (tr CD − s₃) + 3 ⌊K/2⌋ (q − s₃) + 2c (h − s₃) + c/4 s₃.

    For many samples of equal weight only 2K tr C² and 8K tr C³ remain, as for normal w. The rest matters if a few
    samples dominate: waves of the same Uₜ then peak together.

    - `targets`: waves of every target, level and spread, ``(N, 2m)``; `features`: ``(N, n, p)``, or None.
    """
    n_samples, m = len(targets), targets.shape[1] // 2
    ones = np.ones((n_samples, 1 if features is None else features.shape[1], 1))
    factors = ones if features is None else np.concatenate([ones, features], axis=-1)
    level, spread = targets[:, :m], targets[:, m:]
    # The matrices C and D of all actions would take n · m · (2p)² numbers.
    rows = max(1, MAX_BLOCK // (m * 4 * factors.shape[-1] ** 2))
    blocks = [
        _of_actions(factors[:, first : first + rows], (level, spread), waves)
        for first in range(0, factors.shape[1], rows)
    ]
    return np.concatenate(blocks, axis=1)


def _of_actions(factors: np.ndarray, g: tuple[np.ndarray, np.ndarray], waves: int) -> np.ndarray:
    n, width, m = factors.shape[1], factors.shape[2], g[0].shape[1]
    columns = [np.ascontiguousarray(factors[..., a].T) for a in range(width)]  # (n, N) each
    size, weight = (factors**2).sum(axis=-1).T, g[0] ** 2 + g[1] ** 2  # |xₜ|² is their product
    c, d = np.zeros((2, n, m, width, 2, width, 2))
    for (a, b), (u, v) in product(combinations_with_replacement(range(width), 2), ((0, 0), (0, 1), (1, 1))):
        left, right = columns[a] * columns[b], g[u] * g[v]
        for matrix, entry in ((c, left @ right), (d, (left * size) @ (right * weight))):
            for (i, j), (first, second) in product(((a, b), (b, a)), ((u, v), (v, u))):
                matrix[:, :, i, first, j, second] = entry
    c, d = (matrix.reshape(n, m, 2 * width, 2 * width) for matrix in (c, d))
    q = sum(((column * size) @ (wave * weight)) ** 2 for column, wave in product(columns, g))
    h = np.zeros((n, m))
    for of_state, of_target in product(
        combinations_with_replacement(range(width), 3), combinations_with_replacement((0, 1), 3)
    ):
        (a, b, e), (u, v, w) = of_state, of_target
        entry = (columns[a] * columns[b] * columns[e]) @ (g[u] * g[v] * g[w])
        h += _orders(of_state) * _orders(of_target) * entry**2
    s2, s3 = (size**2) @ weight**2, (size**3) @ weight**3
    square, cd = c @ c, (c * d).sum(axis=(-1, -2))
    cube = (square * c).sum(axis=(-1, -2))
    triples = sum(2 * max(t) == sum(t) for t in product(range(1, waves + 1), repeat=3))
    third = 8 * waves * (cube - 3 * cd + 2 * s3) + 6 * waves * (cd - s3) + 3 * (waves // 2) * (q - s3)
    third += 2 * triples * (h - s3) + triples / 4 * s3
    trace = np.trace(c, axis1=-2, axis2=-1)
    variance = 2 * np.trace(square, axis1=-2, axis2=-1) - 1.5 * s2
    return np.stack([waves * trace, waves * variance, third])


def _orders(indices: tuple[int, ...]) -> int:
    """Return the number of distinct orders of these indices."""
    return factorial(len(indices)) // prod(factorial(count) for count in Counter(indices).values())
