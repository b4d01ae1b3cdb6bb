"""Integration over ℝⁿ against the standard normal, for integrands with kinks."""

import numpy as np
from scipy import stats


def grid(kinks, reach=9.0, order=24):
    """Nodes and weights for the standard normal in each of n directions, exact on either side of a kink."""
    x, w = np.polynomial.legendre.leggauss(order)
    nodes, weights = [], []
    for kink in kinks:
        edges = np.unique([-reach, (kink - reach) / 2, kink, 0.0, (kink + reach) / 2, reach])  # a norm has its at 0
        half = np.diff(edges)[:, None] / 2
        z = (edges[:-1, None] + half * (1 + x)).ravel()
        nodes.append(z)
        weights.append((half * w).ravel() * stats.norm.pdf(z))
    return nodes, weights
