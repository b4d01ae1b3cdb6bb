"""Readings of the detectors from cars that were put where they are, and their sums in any order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factorax_traffic import LaneSimulator, Traffic, lane_simulator, lanes
from factorax_traffic.lane_detectors import sums_by_index
from factorax_traffic.observations import observe

N, SIZE = 400, 23


@pytest.mark.parametrize("initial", ["entries", "everywhere"])
def test_first_readings_need_only_the_first_slots_and_are_the_same_in_every_episode(initial):
    simulator = LaneSimulator(Traffic(2, 3, initial=initial))
    first = simulator.first_readings
    for seed in range(3):
        state = simulator.reset(jax.random.key(seed))
        for a, b, c in zip(simulator.read(simulator.visible(state)), simulator.read(state), first, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(b, c)


@pytest.mark.parametrize("few", [pytest.param(16, id="short routes"), pytest.param(0, id="long routes")])
def test_an_episode_begins_with_what_the_detectors_read(monkeypatch, few):
    """On large grids, the first observation is a constant of the program."""
    monkeypatch.setattr(lane_simulator, "FEW", few)
    problem = lanes(2, 3, initial="everywhere")
    states, obs = jax.jit(jax.vmap(problem.reset))(jax.random.split(jax.random.key(1), 3))
    read = jax.vmap(lambda state: observe(problem.simulator.grid, problem.simulator.read(state), state.signals, jnp))
    np.testing.assert_allclose(obs, jax.jit(read)(states), rtol=2e-7)  # XLA multiplies by 1/300


def test_counts_and_speeds_by_street():
    simulator = LaneSimulator(Traffic(1, 2), slots=12)
    grid, state = simulator.grid, simulator.reset(jax.random.key(0))
    route = 4  # eastbound: entry, inner street, exit
    # Two cars on the inner street (one of them standing), one in the junction before it, one on the entry.
    section, place = np.array([1, 1, 0, 0.0]), np.array([290.0, 200.0, 310.0, 100.0])
    speed = np.array([0.0, 10.0, 20.0, 30.0])
    state = state._replace(
        section=state.section.at[:4, route].set(section),
        place=state.place.at[:4, route].set(place),
        speed=state.speed.at[:4, route].set(speed),
        cars=state.cars.at[route].set(4),
    )
    entry, inner, _ = (grid.number[name] for name in grid.routes[route])
    readings = simulator.read(state)
    assert readings.count[inner] == 2
    assert readings.count[entry] == 1
    assert readings.cars[entry] == 2  # with the one in the junction at its end
    assert readings.total_speed[inner] == 10
    assert readings.stopped[inner] == 1
    assert readings.delay[inner] == pytest.approx(2 - 10 / 35)
    light, approach = np.argwhere(grid.incoming == inner)[0]
    np.testing.assert_array_equal(readings.speed[light, approach], [0, 10])  # nearest first
    np.testing.assert_array_equal(readings.distance[light, approach], [10, 100])
    light, approach = np.argwhere(grid.incoming == entry)[0]
    np.testing.assert_array_equal(readings.present[light, approach], [True, False])


def drawn(seed):
    """Return one number per index, speeds, and ones, with an index for each, some of them to be dropped."""
    rng = np.random.default_rng(seed)
    index = rng.integers(0, SIZE + 2, N)
    first = np.zeros(N, bool)
    first[np.unique(index, return_index=True)[1]] = True
    return [np.where(first, rng.normal(0, 100, N), 0.0), rng.uniform(0, 30, N), np.ones(N)], index


@pytest.mark.parametrize("seed", range(3))
def test_sums_in_any_order(seed):
    values, index = drawn(seed)
    order = np.random.default_rng(seed + 10).permutation(N)
    summed = jax.jit(lambda x, i: sums_by_index(x, i, SIZE, single=1, as_integers=True))
    ours = summed([jnp.float32(x) for x in values], index)
    again = summed([jnp.float32(x[order]) for x in values], index[order])
    want = [np.bincount(index, np.float32(x).astype(float), SIZE + 2)[:SIZE] for x in values]
    for got, other, exact in zip(ours, again, want, strict=True):
        assert got.dtype == jnp.float32
        np.testing.assert_array_equal(got, other)
        # rounded to 2⁻²⁰ for each number, and once to single precision
        np.testing.assert_allclose(got, exact, rtol=6e-8, atol=N * 2.0**-21)
    np.testing.assert_array_equal(ours[0], np.float32(want[0]))
    np.testing.assert_array_equal(ours[2], want[2])


def test_sums_of_numbers_depend_on_the_order():
    """The reason for integers."""
    x, index = jnp.array([2.0**24, 1.0, 1.0], jnp.float32), jnp.zeros(3, int)
    one, other = (sums_by_index([x[jnp.array(o)]], index, 1, as_integers=False)[0] for o in ([0, 1, 2], [1, 2, 0]))
    assert one != other
