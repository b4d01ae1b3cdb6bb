"""Observations from readings: sizes, places, and the same in NumPy and JAX."""

import jax
import numpy as np
import pytest
from factorax_traffic import Grid, Traffic, local_observations, observations, observe
from readings_cases import draw_readings, draw_signals


@pytest.mark.parametrize(("size", "length"), [((3, 3), 339), ((2, 6), 452)])
def test_sizes(size, length):
    grid = Grid(*size)
    obs = observe(grid, draw_readings(grid), draw_signals(grid.n_lights))
    assert obs.shape == (length,) == Traffic(*size).observation_space.shape
    assert local_observations(grid, obs).shape == (grid.n_lights, 42)


def test_places_of_the_joint_observation():
    grid = Grid(2, 3)
    readings, signals = draw_readings(grid), draw_signals(6)
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
    readings, signals = draw_readings(grid), draw_signals(12)
    obs = observe(grid, readings, signals)
    local = local_observations(grid, obs)
    flow = local_observations(grid, obs, by_name=True)
    for k, other in enumerate([0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]):
        np.testing.assert_allclose(local[k], by_hand(grid, readings, signals, k, k))
        np.testing.assert_allclose(flow[k], by_hand(grid, readings, signals, k, other))
    np.testing.assert_array_equal(Traffic(2, 6, flow_order=True).local(obs), flow)
    np.testing.assert_array_equal(local_observations(grid, np.stack([obs, obs * 0.5])[:1])[0], local)


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("size", [(1, 1), (3, 4)])
def test_local_observations_are_the_same_in_numpy_and_jax(size, by_name):
    grid, rng = Grid(*size), np.random.default_rng(0)
    width = 27 * grid.n_lights + 2 * grid.n_edges
    obs = (rng.normal(size=(5, 2, width)) * (rng.random((5, 2, width)) < 0.7)).astype(np.float32)  # normalised: below 0
    before = obs.copy()
    ours = local_observations(grid, obs, by_name=by_name)
    theirs = jax.jit(lambda obs: local_observations(grid, obs, by_name=by_name))(obs)
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(obs, before)
    assert ours.dtype == np.float32


@pytest.mark.parametrize("by_name", [False, True])
def test_gathered_as_on_a_gpu(by_name, monkeypatch):
    grid = Grid(3, 4)
    draws = [observe(grid, draw_readings(grid), draw_signals(grid.n_lights)) for _ in range(4)]
    obs = np.reshape(draws, (2, 2, -1)).astype(np.float32)
    expected = local_observations(grid, obs, by_name=by_name)  # in NumPy, which is the same in JAX
    monkeypatch.setattr(observations, "MANY", 1)
    monkeypatch.setattr(observations, "_is_on_one_gpu", lambda: True)
    see = lambda obs: local_observations(grid, obs, by_name=by_name)  # noqa: E731
    for gathered in jax.jit(lambda obs: (see(obs), jax.vmap(see)(obs), see(obs[0, 0])))(obs):
        np.testing.assert_array_equal(gathered, expected if gathered.ndim == 4 else expected[0, 0])


def test_local_observations_are_written_to_an_array_again_and_again():
    grid, rng = Grid(2, 3), np.random.default_rng(0)
    width = 27 * grid.n_lights + 2 * grid.n_edges
    local = observations.LocalObservations(grid)
    out = np.zeros((2, grid.n_lights, 50), np.float32)
    write = local.writer(out[..., :42])
    for present in (0.9, 0.1, 0.5):
        obs = (rng.normal(size=(2, width)) * (rng.random((2, width)) < present)).astype(np.float32)
        write(obs)
        np.testing.assert_array_equal(out[..., :42], local(obs))
    assert not out[..., 42:].any()
