"""Random readings and signals for the tests of observations and targets."""

import numpy as np
from factorax_traffic import Readings, Signals


def draw_readings(grid, seed=0):
    """Readings that traffic on this grid could give."""
    rng = np.random.default_rng(seed)
    n, m = grid.n_lights, grid.n_edges
    in_view = rng.integers(0, 3, (n, 4))
    present = in_view[..., None] > np.arange(2)
    count = rng.integers(0, 5, m)
    count[grid.incoming] = np.maximum(count[grid.incoming], in_view)
    inside = rng.integers(0, 2, m)
    return Readings(
        speed=np.where(present, rng.uniform(0, 30, (n, 4, 2)), 0.0),
        distance=np.where(present, np.sort(rng.uniform(0, 300, (n, 4, 2)), axis=-1), 0.0),
        present=present,
        count=count,
        total_speed=count * rng.uniform(0, 30, m),
        cars=count + inside,
        delay=(count + inside) * rng.random(m),
        stopped=rng.integers(0, 3, m),
    )


def draw_signals(n, seed=0):
    rng = np.random.default_rng(seed)
    return Signals(rng.integers(0, 2, n), rng.integers(0, 2, n), rng.integers(0, 4, n))
