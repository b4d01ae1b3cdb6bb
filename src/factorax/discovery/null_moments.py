"""Mean, variance and third cumulant of the statistic of the dependence test without an edge, in closed form."""

from collections import Counter
from itertools import combinations_with_replacement, product
from math import factorial, prod

import numpy as np

_BLOCK = 2**23
"""Maximum size of the matrices of one block of actions."""


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
    rows = max(1, _BLOCK // (m * 4 * factors.shape[-1] ** 2))
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
