"""A small discovery for the tests of results, files and drawings."""

import numpy as np

from factorax.discovery import Discovery

P = np.array([[1e-5, 0.2, np.nan], [0.011, 0.9, 2e-4]])


def make_discovery(method="score", **changes):
    options = {"effect": np.arange(6.0).reshape(2, 3), "p_value": P, "samples": np.full((2, 3), 50)}
    return Discovery(method, "return", **options | changes)
