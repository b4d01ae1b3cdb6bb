"""Control of the false-discovery rate: the Benjamini–Hochberg and Benjamini–Yekutieli procedures."""

from typing import Any, Literal

import numpy as np

from ._checks import checked, real_array

Control = Literal["bh", "by"]


def adjusted(p_value: np.ndarray, control: Control = "bh") -> np.ndarray:
    """Return for each test the smallest false-discovery rate at which it is a discovery, in the shape of `p_value`.

    With p₍₁₎ ≤ … ≤ p₍ₖ₎ it is q₍ᵢ₎ = min over l ≥ i of c k p₍ₗ₎ / l. For ``"bh"``, c = 1, which is valid if the tests
    are independent or positively dependent; for ``"by"``, c = 1 + ½ + … + 1/k, which is always valid. NaN marks a test
    that was not made and is not counted.

    >>> adjusted(np.array([0.01, 0.04, np.nan, 0.9]))
    array([0.03, 0.06,  nan, 0.9 ])
    """
    checked("control", control, Control)
    p_value = p_values(p_value)
    from scipy import stats  # slow to import, and training needs only `discoveries`

    is_tested = np.isfinite(p_value)
    q = np.full(p_value.shape, np.nan)
    if is_tested.any():
        q[is_tested] = stats.false_discovery_control(p_value[is_tested], method=control)
    return q


def discoveries(p_value: np.ndarray, fdr: float, control: Control = "bh") -> np.ndarray:
    """Return where `adjusted` is at most `fdr`, as booleans. Faster, because only p-values below `fdr` are sorted.

    >>> discoveries(np.array([0.01, 0.04, np.nan, 0.9]), 0.05)
    array([ True, False, False, False])
    """
    checked("control", control, Control)
    tests, small = int(np.isfinite(p_value).sum()), np.flatnonzero(p_value <= fdr)
    # Benjamini–Yekutieli pays for any dependence between tests by the factor 1 + ½ + … + 1/k.
    factor = tests if control == "bh" else tests * float((1 / np.arange(1, tests + 1)).sum())
    order = small[np.argsort(p_value.ravel()[small])]
    passed = np.flatnonzero(p_value.ravel()[order] * factor <= fdr * np.arange(1, len(order) + 1))
    is_discovery = np.zeros(p_value.size, bool)
    is_discovery[order[: passed[-1] + 1 if len(passed) else 0]] = True
    return is_discovery.reshape(p_value.shape)


def p_values(values: Any) -> np.ndarray:
    """Return an array of p-values: numbers from 0 to 1, or NaN where nothing was tested."""
    p = real_array("p_value", values, finite=False)
    odd = p[(p < 0) | (p > 1)]
    if odd.size or p.ndim == 0:
        raise ValueError(f"p_value: got {odd.ravel()[0] if odd.size else p:g}, want an array of numbers from 0 to 1")
    return p
