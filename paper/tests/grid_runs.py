"""Rows of made-up runs on a grid of dimensions and step sizes."""

import numpy as np

INF = np.inf
CLOSE, FAR = (0.1, 0.11, 0.12, 0.13), (1.0, 1.1, 1.2, 1.3)


def runs(method, n, step_size, gaps, **more):
    """The rows of one cell of a grid."""
    for seed, gap in enumerate(gaps):
        row = {"method": method, "n": n, "step_size": step_size, "seed": seed, "gap": gap}
        yield row | {"diverged": int(gap == INF)} | {key: values[seed] for key, values in more.items()}
