"""The lane simulator against what SUMO did, recorded; and its own promises."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factorax_traffic import LaneSimulator, Traffic, lane_simulator, lanes
from factorax_traffic.controllers import Controller, actuated, gap_out
from factorax_traffic.episode import play
from record import PATH, SIZES, controllers

RECORDED = dict(np.load(PATH))
SINGLE, DOUBLE = jnp.float32, jnp.float64


CLOSED = {"gap-out": gap_out, "actuated": actuated}
"""Those that look at the observation."""


@functools.cache
def compiled(traffic, dtype):
    """Whole episodes, many at a time, from commands ``(B, T, n)`` and which closed controller adds to them, or 0."""
    simulator = LaneSimulator(traffic, dtype=dtype)
    closed = [make(traffic.grid) for make in CLOSED.values()]

    def episode(commands, which):
        def act(obs, t, memory):
            commands, which, inner = memory
            asked = [each.act(obs, t, kept) for each, kept in zip(closed, inner, strict=True)]
            request = commands[t]
            for i, (request_of, _) in enumerate(asked):
                request = request | ((which == i + 1) & request_of)
            return request, (commands, which, tuple(kept for _, kept in asked))

        controller = Controller(act, (commands, which, tuple(each.memory for each in closed)))
        return play(simulator, controller, jax.random.key(0), steps=len(commands))[0]

    return jax.jit(jax.vmap(episode))


def episodes(traffic, controllers, dtype=SINGLE, steps=400):
    """An episode under each controller, ``(B, T, ...)``."""
    which = [list(CLOSED).index(name) + 1 if name in CLOSED else 0 for name in controllers]
    nothing = np.zeros(traffic.grid.n_lights, bool)
    asked = [
        [nothing if closed else controller.act(None, t, ())[0] for t in range(steps)]
        for closed, controller in zip(which, controllers.values(), strict=True)
    ]
    return jax.tree.map(np.asarray, compiled(traffic, dtype)(np.array(asked), np.array(which)))


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_double_precision_is_sumo_to_rounding(size):
    with jax.enable_x64(True):
        traffic = Traffic(*size, speed_deviation=0.0)
        names = controllers(traffic.grid)
        psi, reward, cars = episodes(traffic, names, DOUBLE)
    for i, name in enumerate(names):
        key = f"{size[0]}x{size[1]}/{name}"
        np.testing.assert_array_equal(cars[i].sum(axis=-1), RECORDED[f"{key}/cars"], err_msg=name)
        np.testing.assert_allclose(psi[i].sum(axis=1), RECORDED[f"{key}/reward"], rtol=0, atol=1e-9, err_msg=name)
        np.testing.assert_allclose(psi[i].sum(axis=0), RECORDED[f"{key}/targets"], rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(psi.sum(axis=-1), reward, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_single_precision_returns(size):
    traffic = Traffic(*size, speed_deviation=0.0)
    names = controllers(traffic.grid)
    psi, _, _ = episodes(traffic, names)
    for i, name in enumerate(names):
        known = RECORDED[f"{size[0]}x{size[1]}/{name}/reward"].sum()
        assert psi[i].sum(dtype=float) == pytest.approx(known, rel=0.002), name


@pytest.mark.slow
def test_no_light_reaches_beyond_its_corridor():
    """To the last bit, all that every other street reads."""
    traffic = Traffic(3, 3, norm="fixed", speed_deviation=0.0)
    requests = np.random.default_rng(0).random((10, 200, 9)) < 0.2
    requests[:9] = requests[9]
    for light in range(9):
        requests[light, :, light] = np.random.default_rng(light + 1).random(200) < 0.2
    psi = compiled(traffic, SINGLE)(requests, np.zeros(10, int)).psi
    changed = (np.asarray(psi[:9]) != np.asarray(psi[9])).any(axis=1)
    assert changed.any(axis=1).all()
    assert not changed[~traffic.influence("corridor").to_dense()].any()


def test_first_cars_differ_in_what_they_want():
    simulator = LaneSimulator(Traffic(3, 3))
    wanted_by = jax.jit(jax.vmap(lambda key: simulator.reset(key).wanted))
    wanted = np.asarray(wanted_by(jax.random.split(jax.random.key(0), 400)))[:, 0]
    assert wanted.max() == 30
    # P(35 f < 30) = Φ(−1.43) = 0.0766; 4800 draws have a standard error of 0.0038.
    assert abs((wanted < 30).mean() - 0.0766) < 4 * 0.0038


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_float64_must_be_switched_on():
    with pytest.raises(ValueError, match="set jax_enable_x64 to use float64"):
        LaneSimulator(Traffic(), dtype=jnp.float64)
    with pytest.raises(ValueError, match="period: got 6, want at least 12"):
        lanes(period=6)
    with pytest.raises(ValueError, match="slots: got 1, want more than 1"):
        LaneSimulator(Traffic(), slots=1)
    # 60 streets of 318.8 m and one of 100 m at 30 m/s are 640.9 s, but an episode has 400: 33 periods of 12 s.
    with pytest.raises(ValueError, match="slots: got 32, want at least 33, the number of cars on the longest route"):
        LaneSimulator(Traffic(1, 60), slots=32)
    LaneSimulator(Traffic(1, 60), slots=33)
