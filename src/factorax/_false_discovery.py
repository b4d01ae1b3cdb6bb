"""Control of the false-discovery rate: the procedures of Benjamini and Hochberg, and of Benjamini and Yekutieli."""

from typing import Literal, get_args

import numpy as np

Control = Literal["bh", "by"]


def adjusted(p_value: np.ndarray, control: Control = "bh") -> np.ndarray:
    """For every test the smallest false-discovery rate at which it is a discovery, in the shape of `p_value`.

    With p₍₁₎ ≤ … ≤ p₍ₖ₎ it is q₍ᵢ₎ = min over l ≥ i of c k p₍ₗ₎ / l, where c = 1 for ``"bh"``, which requires tests
    that are independent or positively dependent, and c = 1 + ½ + … + 1/k for ``"by"``, which requires nothing. NaN
    stands for a test that was not made; it does not count.

    >>> adjusted(np.array([0.01, 0.04, np.nan, 0.9]))
    array([0.03, 0.06,  nan, 0.9 ])
    """
    if control not in get_args(Control):
        raise ValueError(f"control: got {control!r}, want 'bh' or 'by'")
    from scipy import stats  # takes long to import, and training, which needs `discoveries` alone, does without

    is_tested = np.isfinite(p_value)
    q = np.full(p_value.shape, np.nan)
    if is_tested.any():
        q[is_tested] = stats.false_discovery_control(p_value[is_tested], method=control)
    return q


def discoveries(p_value: np.ndarray, fdr: float, control: Control = "bh") -> np.ndarray:
    """Where `adjusted` is at most `fdr`, booleans; faster, because only the p-values below `fdr` are sorted.

    >>> discoveries(np.array([0.01, 0.04, np.nan, 0.9]), 0.05)
    array([ True, False, False, False])
    """
    if control not in get_args(Control):
        raise ValueError(f"control: got {control!r}, want 'bh' or 'by'")
    tests, small = int(np.isfinite(p_value).sum()), np.flatnonzero(p_value <= fdr)
    factor = tests if control == "bh" else tests * float((1 / np.arange(1, tests + 1)).sum())
    order = small[np.argsort(p_value.ravel()[small])]
    passed = np.flatnonzero(p_value.ravel()[order] * factor <= fdr * np.arange(1, len(order) + 1))
    is_discovery = np.zeros(p_value.size, bool)
    is_discovery[order[: passed[-1] + 1 if len(passed) else 0]] = True
    return is_discovery.reshape(p_value.shape)
