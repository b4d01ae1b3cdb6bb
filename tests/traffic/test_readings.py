"""Observations and targets from the same readings: sizes, places, sums."""

import jax.numpy as jnp
import numpy as np
import pytest

from factorax.problems.traffic import Grid, Readings, Signals, Traffic, local_observations, observe
from factorax.problems.traffic.targets import (
    edge_targets,
    global_reward,
    light_targets,
    local_targets,
    targets,
    usual_cars,
)


def draw(grid, seed=0):
    """Readings that some traffic could give."""
    rng = np.random.default_rng(seed)
    n, m = grid.n_lights, grid.n_edges
    seen = rng.integers(0, 3, (n, 4))
    present = seen[..., None] > np.arange(2)
    count = rng.integers(0, 5, m)
    count[grid.incoming] = np.maximum(count[grid.incoming], seen)
    inside = rng.integers(0, 2, m)
    return Readings(
        np.where(present, rng.uniform(0, 30, (n, 4, 2)), 0.0),
        np.where(present, np.sort(rng.uniform(0, 300, (n, 4, 2)), axis=-1), 0.0),
        present,
        count,
        count * rng.uniform(0, 30, m),
        count + inside,
        (count + inside) * rng.random(m),
        rng.integers(0, 3, m),
    )


def draw_signals(n, seed=0):
    rng = np.random.default_rng(seed)
    return Signals(rng.integers(0, 2, n), rng.integers(0, 2, n), rng.integers(0, 4, n))


@pytest.mark.parametrize(("size", "length"), [((3, 3), 339), ((2, 6), 452)])
def test_sizes(size, length):
    grid = Grid(*size)
    obs = observe(grid, draw(grid), draw_signals(grid.n_lights))
    assert obs.shape == (length,) == Traffic(*size).observation_space.shape
    assert local_observations(grid, obs).shape == (grid.n_lights, 42)


def test_places_of_the_joint_observation():
    grid = Grid(2, 3)
    readings, signals = draw(grid), draw_signals(6)
    n, m = 6, grid.n_edges
    obs = observe(grid, readings, signals)
    speed, distance, identity = obs[: 24 * n].reshape(3, n, 4, 2)
    for k in range(n):
        for a, e in enumerate(grid.incoming[k]):
            for i in range(2):
                seen = speed[k, a, i], distance[k, a, i], identity[k, a, i]
                here = readings.speed[k, a, i] / 35, readings.distance[k, a, i] / 300, grid.identities[e]
                assert seen == (pytest.approx(here) if readings.present[k, a, i] else (0, 0, 0))
    density, mean = obs[24 * n : 24 * n + 2 * m].reshape(2, m)
    np.testing.assert_allclose(density, 5 * readings.count / grid.lengths)
    cars = readings.count > 0
    np.testing.assert_allclose(mean[cars], (readings.total_speed[cars] / readings.count[cars]) / 35)
    assert (mean[~cars] == 0).all()
    np.testing.assert_array_equal(
        obs[24 * n + 2 * m :].reshape(3, n), [signals.since, signals.direction, signals.yellow]
    )


def by_hand(grid, readings, signals, k, of):
    """What light k sees, the cars and streets of light `of`."""
    there = readings.present[of].ravel()
    identity = np.repeat(grid.identities[grid.incoming[of]], 2)
    approaches = grid.incoming[of]
    around = [k, *grid.neighbours[k]]
    return np.concatenate(
        [
            np.where(there, readings.speed[of].ravel() / 35, 1),
            np.where(there, readings.distance[of].ravel() / 300, 1),
            np.where(there, identity, 0),
            5 * readings.count[approaches] / 300,
            [readings.total_speed[e] / readings.count[e] / 35 if readings.count[e] else 0 for e in approaches],
            [signals.direction[x] if x >= 0 else 0 for x in around],
            [signals.yellow[x] if x >= 0 else 1 for x in around],
        ]
    )


def test_places_of_local_observations():
    grid = Grid(2, 6)
    readings, signals = draw(grid), draw_signals(12)
    obs = observe(grid, readings, signals)
    local = local_observations(grid, obs)
    flow = local_observations(grid, obs, by_name=True)
    for k, other in enumerate([0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]):
        np.testing.assert_allclose(local[k], by_hand(grid, readings, signals, k, k))
        np.testing.assert_allclose(flow[k], by_hand(grid, readings, signals, k, other))
    np.testing.assert_array_equal(Traffic(2, 6, flow_order=True).local(obs), flow)
    np.testing.assert_array_equal(local_observations(grid, np.stack([obs, obs * 0.5])[:1])[0], local)


def test_jax_gives_the_same():
    grid = Grid(2, 2)
    readings, signals = draw(grid), draw_signals(4)
    as_jax = Readings(*map(jnp.asarray, readings)), Signals(*map(jnp.asarray, signals))
    obs = observe(grid, readings, signals)
    theirs = observe(grid, *as_jax, jnp)
    np.testing.assert_allclose(theirs, obs, rtol=1e-6)
    np.testing.assert_allclose(local_observations(grid, theirs), local_observations(grid, obs), rtol=1e-6)
    for norm, kind in (("global", "edges"), ("global", "lights"), ("fixed", "lights"), ("local", "lights")):
        ours = targets(grid, readings, norm=norm, kind=kind)
        np.testing.assert_allclose(targets(grid, as_jax[0], jnp, norm=norm, kind=kind), ours, rtol=1e-5)


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (2, 6)])
def test_targets_add_up_to_the_reward(size):
    grid = Grid(*size)
    for seed in range(20):
        readings = draw(grid, seed)
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
    nothing = Readings(*(np.zeros_like(x) for x in draw(grid)))
    assert global_reward(nothing) == 0
    assert (edge_targets(nothing) == 0).all()


def test_fixed_targets_know_nothing_of_other_streets():
    grid = Grid(3, 3)
    assert (usual_cars(grid), usual_cars(Grid(2, 6))) == (60, 80)
    readings = draw(grid)
    psi = targets(grid, readings, norm="fixed")
    np.testing.assert_allclose(psi, -readings.delay / 60 - 0.2 * readings.stopped)


def test_local_targets_by_hand():
    grid = Grid(2, 2)
    readings = draw(grid)
    psi = local_targets(grid, readings)
    for k in range(4):
        e = [*grid.incoming[k], *grid.outgoing[k]]
        assert psi[k] == pytest.approx(
            -readings.delay[e].sum() / readings.cars[e].sum() - 0.2 * readings.stopped[e].sum()
        )


def test_settings_that_make_no_sense():
    with pytest.raises(ValueError, match="norm: got 'local' with a target for every street"):
        Traffic(norm="local")
    with pytest.raises(ValueError, match="kind: got 'cars', want one of edges, lights"):
        Traffic(kind="cars")
    with pytest.raises(ValueError, match="horizon: got 0"):
        Traffic(horizon=0)
    with pytest.raises(ValueError, match="standstill: got -1"):
        Traffic(standstill=-1)


def test_flows_inflows():
    assert Traffic(3, 3, flow_inflows=True).inflows.all()
    enters = Traffic(2, 6, flow_inflows=True).inflows
    grid = Grid(2, 6)
    assert [grid.routes[x][0] for x in np.flatnonzero(~enters)] == ["right0_2", "right0_3", "right0_4", "right0_5"]


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("size", [(1, 1), (3, 4)])
def test_local_observations_are_the_same_in_numpy_and_jax(size, by_name):
    grid, rng = Grid(*size), np.random.default_rng(0)
    width = 27 * grid.n_lights + 2 * grid.n_edges
    obs = (rng.normal(size=(5, 2, width)) * (rng.random((5, 2, width)) < 0.7)).astype(np.float32)  # normalised: below 0
    before = obs.copy()
    ours = local_observations(grid, obs, by_name=by_name)
    np.testing.assert_array_equal(ours, local_observations(grid, jnp.asarray(obs), by_name=by_name))
    np.testing.assert_array_equal(obs, before)
    assert ours.dtype == np.float32
