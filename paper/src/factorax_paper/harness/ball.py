"""The ball around the optimum in which a policy gradient with a fixed step size settles on the search bandit.

Near the optimum, where d = μᵢ − cᵢ is small, E|d + ε| has the slope 2φ(0) d. An update of step size η therefore moves d
by −2φ(0) (η/n) d on average, plus noise of variance v (η/n)², where v is the variance of εᵢ times n times the credit.
To first order, d then has the variance v (η/n) / (4φ(0)), and the mean gap is

    r = √(2/π) · √(v (η/n) / (4φ(0))),    v = 3 for FPG, and for VPG E[ε₁² (|ε₁| + … + |εₙ|)²].

The radius therefore grows with the square root of the step size times the variance.
"""

import numpy as np

MEAN = float(np.sqrt(2 / np.pi))  # E|ε|, and 2φ(0)


def noise_of_update(estimator: str, n: int) -> float:
    """Return v, the variance of n times an update of step size 1 at the optimum, without a baseline.

    >>> noise_of_update("FPG", 1000), round(noise_of_update("VPG", 2), 3)
    (3.0, 6.546)
    """
    if estimator not in ("FPG", "VPG"):
        raise ValueError(f"estimator: got {estimator!r}, want FPG or VPG")
    others = 0 if estimator == "FPG" else n - 1
    # E ε⁴, twice E|ε|³ E[rest], and E[rest²], where the rest is the sum of the others.
    return 3.0 + 4 * MEAN * others * MEAN + others * (1 - MEAN**2) + (others * MEAN) ** 2


def radius(estimator: str, n: int, step_size: float) -> float:
    """Return r, the stationary mean gap, to first order in the step size.

    >>> round(radius("FPG", 1000, 0.5), 4)
    0.0245
    """
    return MEAN * float(np.sqrt(noise_of_update(estimator, n) * step_size / n / (2 * MEAN)))
