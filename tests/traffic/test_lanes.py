"""The lane simulator against what SUMO did, recorded; and its own promises."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from record import PATH, SIZES, controllers

import factorax as fx
from factorax.problems.traffic import LaneSimulator, Traffic, lane_simulator, lanes
from factorax.problems.traffic.controllers import gap_out
from factorax.problems.traffic.observations import observe
from factorax.problems.traffic.targets import global_reward

RECORDED = dict(np.load(PATH))
SINGLE, DOUBLE = jnp.float32, jnp.float64


@functools.cache
def compiled(traffic, dtype):
    """Whole episodes, many at a time: from commands ``(B, T, n)`` to targets and cars of every street.

    Where `closed`, the gap-out controller adds its own requests.
    """
    simulator, grid, act = LaneSimulator(traffic, dtype=dtype), traffic.grid, gap_out(traffic.grid)

    def episode(commands, closed):
        def step(carry, command):
            state, obs = carry
            state = simulator.step(state, command | (closed & act(obs, 0)))
            readings = simulator.read(state)
            obs = observe(grid, readings, state.signals, jnp)
            return (state, obs), (traffic.targets(readings, jnp), readings.cars, global_reward(readings, jnp))

        state = simulator.reset(jax.random.key(0))
        start = observe(grid, simulator.read(state), state.signals, jnp)
        return jax.lax.scan(step, (state, start), commands)[1]

    return jax.jit(jax.vmap(episode))


def episodes(traffic, controllers, dtype=SINGLE, steps=400):
    """Targets ``(B, T, m)``, cars and rewards of an episode under each controller."""
    closed = np.array([name == "gap-out" for name in controllers])
    asked = [[np.zeros(traffic.grid.n_lights, bool) if c else act(None, t) for t in range(steps)]
             for c, act in zip(closed, controllers.values(), strict=True)]  # fmt: skip
    return [np.asarray(x) for x in compiled(traffic, dtype)(np.array(asked), closed)]


@pytest.mark.parametrize("size", SIZES)
def test_double_precision_is_sumo_to_rounding(size):
    with jax.enable_x64(True):
        traffic = Traffic(*size, speed_deviation=0.0)
        names = controllers(traffic.grid)
        psi, cars, reward = episodes(traffic, names, DOUBLE)
    for i, name in enumerate(names):
        key = f"{size[0]}x{size[1]}/{name}"
        np.testing.assert_array_equal(cars[i].sum(axis=-1), RECORDED[f"{key}/cars"], err_msg=name)
        np.testing.assert_allclose(psi[i].sum(axis=1), RECORDED[f"{key}/reward"], rtol=0, atol=1e-9, err_msg=name)
        np.testing.assert_allclose(psi[i].sum(axis=0), RECORDED[f"{key}/targets"], rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(psi.sum(axis=-1), reward, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_single_precision_returns(size):
    traffic = Traffic(*size, speed_deviation=0.0)
    names = controllers(traffic.grid)
    psi, _, _ = episodes(traffic, names)
    for i, name in enumerate(names):
        known = RECORDED[f"{size[0]}x{size[1]}/{name}/reward"].sum()
        assert psi[i].sum(dtype=float) == pytest.approx(known, rel=0.002), name


def test_no_light_reaches_beyond_its_corridor():
    """To the last bit, all that every other street reads."""
    traffic = Traffic(3, 3, norm="fixed", speed_deviation=0.0)
    requests = np.random.default_rng(0).random((10, 200, 9)) < 0.2
    requests[:9] = requests[9]
    for light in range(9):
        requests[light, :, light] = np.random.default_rng(light + 1).random(200) < 0.2
    psi, _, _ = compiled(traffic, SINGLE)(requests, np.zeros(10, bool))
    changed = (np.asarray(psi[:9]) != np.asarray(psi[9])).any(axis=1)
    assert changed.any(axis=1).all()
    assert not changed[~traffic.influence("corridor").to_dense()].any()


def test_the_problem_passes_its_check_and_has_the_right_sizes():
    for size, length in (((3, 3), 339), ((2, 6), 452)):
        problem = lanes(*size)
        assert problem.observation_space.shape == (length,)
        _, obs = jax.eval_shape(problem.reset, jax.random.key(0))
        assert obs.shape == (length,)
        assert jax.eval_shape(problem.local, obs).shape == (size[0] * size[1], 42)
    fx.check_problem(lanes(1, 2, slots=10), steps=30)
    fx.check_problem(lanes(2, 1, slots=10, action="gaussian", kind="lights", norm="local"), steps=30)


def test_an_episode_is_cut_at_its_horizon_and_begins_anew():
    problem = lanes(1, 1, horizon=3)
    step = jax.jit(problem.step)
    state, _ = jax.jit(problem.reset)(jax.random.key(0))
    ends = []
    for _ in range(3):
        out = step(jax.random.key(0), state, jnp.zeros(1, jnp.int32))
        state = out.state
        ends.append((bool(out.terminated), bool(out.truncated)))
    assert ends == [(False, False), (False, False), (False, True)]


def test_first_cars_differ_in_what_they_want():
    simulator = LaneSimulator(Traffic(3, 3))
    states = jax.vmap(simulator.reset)(jax.random.split(jax.random.key(0), 400))
    wanted = np.asarray(states.wanted[:, 0])
    assert wanted.max() == 30
    # P(35 f < 30) = Φ(−1.43) = 0.0766; 4800 draws have a standard error of 0.0038.
    assert abs((wanted < 30).mean() - 0.0766) < 4 * 0.0038


def test_a_full_route_is_said():
    problem = lanes(1, 1, slots=5)
    state, _ = jax.jit(problem.reset)(jax.random.key(0))
    step = jax.jit(problem.step)
    psi = []
    for _ in range(120):  # east–west is never green
        out = step(jax.random.key(0), state, jnp.zeros(1, jnp.int32))
        state = out.state
        psi.append(np.asarray(out.psi))
    bad = np.isnan(psi).any(axis=1)
    assert bad.any()
    assert int(state.cars.max()) == 5
    assert not bad[:40].any()


def test_a_queue_that_may_reach_back_is_said():
    simulator = LaneSimulator(Traffic(1, 2), slots=60)
    state = simulator.reset(jax.random.key(0))
    route = 4  # eastbound
    crowd = np.arange(60) < 38
    state = state._replace(
        section=state.section.at[:, route].set(jnp.where(crowd, 1.0, 0.0)),
        place=state.place.at[:, route].set(jnp.where(crowd, 299.0 - 7.5 * np.arange(60), 0.0)),
        cars=state.cars.at[route].set(38),
    )
    assert bool(simulator.invalid(state, simulator.read(state)))
    fewer = state._replace(cars=state.cars.at[route].set(36))
    assert not bool(simulator.invalid(fewer, simulator.read(fewer)))


def test_long_routes_look_up_what_short_ones_compare(monkeypatch):
    """The two ways to find lights, leaders and sums give the same."""
    traffic = Traffic(2, 3, initial="everywhere", horizon=60)
    requests = np.random.default_rng(0).random((60, 6)) < 0.3
    results = []
    for few in (16, 0):
        monkeypatch.setattr(lane_simulator, "FEW", few)
        simulator = LaneSimulator(traffic)

        @jax.jit
        def run(requests, simulator=simulator):
            state = simulator.reset(jax.random.key(0))
            state, _ = jax.lax.scan(lambda state, request: (simulator.step(state, request), None), state, requests)
            return state, simulator.read(state)

        results.append(run(requests))
    for a, b in zip(jax.tree.leaves(results[0]), jax.tree.leaves(results[1]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4)


def test_a_large_grid_has_traffic_at_every_light():
    problem = lanes(30, 20, initial="everywhere")

    @jax.jit
    def run(key):
        state, _ = problem.reset(key)
        out = problem.step(key, state, jnp.zeros(600, jnp.int32))
        return state.cars.sum(), problem.local(out.obs), out.psi

    cars, local, psi = run(jax.random.key(0))
    assert int(cars) == 2 * (20 * 30 + 30 * 20)
    assert (np.asarray(local)[:, 16:24].reshape(600, 4, 2)[..., 0] > 0).all()  # a car on each approach
    assert np.isfinite(psi).all()


def test_float64_must_be_switched_on():
    with pytest.raises(ValueError, match="set jax_enable_x64 first"):
        LaneSimulator(Traffic(), dtype=jnp.float64)
    with pytest.raises(ValueError, match="period: got 6, want at least 12"):
        lanes(period=6)
    with pytest.raises(ValueError, match="slots: got 1, want more than 1"):
        LaneSimulator(Traffic(), slots=1)


def test_controllers_take_batches_of_jax():
    traffic = Traffic(2, 2)
    simulator = LaneSimulator(traffic)
    state = simulator.reset(jax.random.key(0))
    obs = observe(traffic.grid, simulator.read(state), state.signals, jnp)
    act = gap_out(traffic.grid)
    both = jax.jit(lambda x: act(x, 0))(jnp.stack([obs, obs]))
    assert both.shape == (2, 4)
    np.testing.assert_array_equal(both[0], act(np.asarray(obs), 0))
