"""EV2Gym and the example on it: sums, masks, seeds, what is left alone, and K by intervention."""

import random
import warnings
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from factorax_paper import ev2gym
from factorax_paper.ev2gym import Chargers

import factorax as fx

pytestmark = [pytest.mark.ev2gym, pytest.mark.filterwarnings("ignore")]  # of their own they have many
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip(
        "ev2gym.models.ev2gym_env", reason="EV2Gym is an extra: factorax-paper[ev2gym]", exc_type=ImportError
    )

DAY = {"day": 3}


@pytest.fixture(scope="module")
def example():
    path = Path(__file__).parents[2] / "examples" / "ev2gym_chargers.py"
    spec = spec_from_file_location("ev2gym_chargers", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def env():
    return Chargers(days=range(3))


def actions(steps, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (steps, 25)).astype(np.float32)


def play(env, seed, steps=112):
    obs, _ = env.reset(seed=seed)
    return [(obs, *env.step(action)) for action in actions(steps)]


def same(a, b):
    return all(
        np.array_equal(x[1], y[1]) and np.array_equal(x[-1]["vector_reward"], y[-1]["vector_reward"])
        for x, y in zip(a, b, strict=True)
    )


def test_it_is_a_problem():
    fx.check_problem(lambda: Chargers(days=range(3)), steps=150)


def test_parts_sum_to_what_the_simulator_adds_up(env):
    env.reset(options=DAY)
    total = np.zeros(55)
    for t, action in enumerate(actions(112)):
        _, reward, terminated, truncated, info = env.step(action)
        assert info["vector_reward"].dtype == np.float64
        assert reward == pytest.approx(info["simulator_reward"], rel=1e-12, abs=1e-9)
        assert (terminated, truncated) == (t == 111, False)
        total += info["vector_reward"]
    stats = env.simulator.stats
    assert total[:25].sum() == pytest.approx(stats["total_profits"])
    assert -total[50:].sum() == pytest.approx(100 * stats["total_transformer_overload"])
    assert total[25:50].sum() < 0
    assert total[50:].sum() < 0


def test_the_mask_says_who_had_a_car_before_the_step(env):
    obs, _ = env.reset(options=DAY)
    seen = []
    for action in actions(112):
        is_there = np.asarray(env.local(obs))[:, -2] > 0  # how full the car is, nought where there is none
        obs, *_, info = env.step(action)
        np.testing.assert_array_equal(info["factor_mask"], is_there)
        assert not info["vector_reward"][:25][~is_there].any()  # who has no car sells nothing
        seen.append(is_there)
    assert 0 < np.mean(seen) < 1


def test_an_idle_charger_changes_nothing(env):
    env.reset(options=DAY)
    usual = [env.step(action)[-1] for action in actions(112)]
    env.reset(options=DAY)
    for action, before in zip(actions(112), usual, strict=True):
        info = env.step(np.where(before["factor_mask"], action, -action))[-1]
        np.testing.assert_array_equal(info["vector_reward"], before["vector_reward"])


@pytest.mark.parametrize("day", [0, 5])
def test_nothing_outside_its_row_moves(example, env, day):
    edges = env.network.to_dense() > 0
    moved = example.moved(env, day)
    assert not (moved & ~edges).any()
    assert (moved & edges).sum() > edges.sum() / 2


def test_a_policy_that_sees_everything_needs_all_edges(example, env):
    assert (example.moved(env, 0, is_local=False) & ~(env.network.to_dense() > 0)).any()


def test_what_a_charger_sees_is_its_own(env):
    obs, _ = env.reset(options=DAY)
    for action in actions(60):
        obs, *_ = env.step(action)
    local, simulator = env.local(obs), env.simulator
    assert local.shape == (25, 63)
    for charger, row in zip(simulator.charging_stations, local, strict=True):
        car = charger.evs_connected[0]
        wanted = (0, 0) if car is None else (car.get_soc(), car.time_of_departure - simulator.current_step)
        np.testing.assert_allclose(row[-2:], wanted, rtol=1e-6)
        transformer = simulator.transformers[charger.connected_transformer]
        np.testing.assert_allclose(row[41:61], transformer.get_power_limits(simulator.current_step, 20), rtol=1e-6)
        np.testing.assert_allclose(row[1:21], np.abs(simulator.charge_prices[0, 60:80]), rtol=1e-6)


def test_seeds(env):
    first = play(env, 7)
    assert same(first, play(env, 7))
    assert same(first, play(Chargers(days=range(3)), 7))
    assert not same(first, play(Chargers(days=[4]), 7))


def test_global_generators_are_left_alone():
    np.random.seed(11)  # noqa: NPY002
    random.seed(11)
    before = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    ev2gym.car_park.__wrapped__()
    ev2gym.morning.__wrapped__(8)
    play(Chargers(days=[9]), 0)
    np.testing.assert_array_equal(np.random.get_state()[1], before[0])  # noqa: NPY002
    assert random.getstate() == before[1]


def test_it_trains(example, env):
    model = fx.FactoredPPO(lambda: Chargers(days=range(2)), **example.PPO | example.OURS | {"n_envs": 8})
    model.learn(896, progress_bar=False)
    assert model.history[-1]["rollout/episodes"] == 8
    result = example.evaluate(lambda env, obs: model.predict(obs, deterministic=True)[0], days=[0])
    assert result["return"] == pytest.approx(result["profit"] + result["users"] + result["overload"])
