"""Targets from readings: sums, norms, and the same in NumPy and JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factorax_traffic import Grid, Readings
from factorax_traffic.targets import (
    edge_targets,
    global_reward,
    light_targets,
    local_targets,
    targets,
    usual_cars,
)
from readings_cases import draw_readings


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (2, 6)])
def test_targets_add_up_to_the_reward(size):
    grid = Grid(*size)
    for seed in range(20):
        readings = draw_readings(grid, seed)
        psi = edge_targets(readings)
        reward = global_reward(readings)
        by_flow = -readings.delay.sum() / readings.cars.sum() - 0.2 * readings.stopped.sum()
        assert abs(reward - by_flow) < 1e-12
        assert abs(psi.sum() - reward) < 1e-12
        lights = light_targets(grid, psi)
        assert abs(lights.sum() - reward) < 1e-12
        for k in range(grid.n_lights):
            assert lights[k] == pytest.approx(psi[grid.light_of == k].sum(), abs=1e-12)


def test_no_cars_no_reward():
    grid = Grid(1, 1)
    nothing = Readings(*(np.zeros_like(x) for x in draw_readings(grid)))
    assert global_reward(nothing) == 0
    assert (edge_targets(nothing) == 0).all()


def test_fixed_targets_know_nothing_of_other_streets():
    grid = Grid(3, 3)
    assert (usual_cars(grid), usual_cars(Grid(2, 6))) == (60, 80)
    readings = draw_readings(grid)
    psi = targets(grid, readings, norm="fixed")
    np.testing.assert_allclose(psi, -readings.delay / 60 - 0.2 * readings.stopped)


def test_local_targets_by_hand():
    grid = Grid(2, 2)
    readings = draw_readings(grid)
    psi = local_targets(grid, readings)
    for k in range(4):
        e = [*grid.incoming[k], *grid.outgoing[k]]
        assert psi[k] == pytest.approx(
            -readings.delay[e].sum() / readings.cars[e].sum() - 0.2 * readings.stopped[e].sum()
        )


def test_targets_are_the_same_in_numpy_and_jax():
    grid = Grid(2, 2)
    readings = draw_readings(grid)
    options = [("global", "edges"), ("global", "lights"), ("fixed", "lights"), ("local", "lights")]
    every = lambda readings, xp: [targets(grid, readings, xp, norm=norm, kind=kind) for norm, kind in options]  # noqa: E731
    for ours, theirs in zip(every(readings, np), jax.jit(lambda r: every(r, jnp))(readings), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-5)
