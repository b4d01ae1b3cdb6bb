"""What detectors at the stop lines tell."""

import jax
import numpy as np
from factorax_traffic import Grid, observe, stop_line_detectors
from factorax_traffic.observations import Readings
from factorax_traffic.signals import Signals


def test_a_detector_sees_the_nearest_car_if_it_is_near_and_nothing_else():
    grid = Grid(2, 2)
    n, m, rng = grid.n_lights, grid.n_edges, np.random.default_rng(0)
    present = rng.random((n, 4, 2)) < 0.7
    distance = np.where(present, rng.uniform(0, 40, (n, 4, 2)), 0.0)
    zeros = np.zeros(m)
    readings = Readings(rng.random((n, 4, 2)), distance, present, zeros, zeros, zeros, zeros, zeros)
    signals = Signals(*(rng.integers(0, 2, n).astype(float) for _ in range(3)))
    obs = observe(grid, readings, signals)
    seen = stop_line_detectors(grid, obs)
    assert seen.shape == (n, 7)
    np.testing.assert_array_equal(seen[:, :4], present[..., 0] & (distance[..., 0] <= 15))
    np.testing.assert_array_equal(seen[:, 4:], np.stack([signals.since, signals.direction, signals.yellow], axis=1))
    of_batch = jax.jit(lambda obs: stop_line_detectors(grid, obs[None])[0])
    np.testing.assert_array_equal(of_batch(obs), seen)


def test_lights_are_neighbours_if_a_street_joins_them():
    line = Grid(1, 3)
    np.testing.assert_array_equal(line.adjacency, [[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    assert Grid(3, 3).adjacency.sum() == 2 * 12
