"""Lights that choose their next green phase, in SUMO."""

import warnings
from types import SimpleNamespace
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
from factorax_traffic.city import CityEnv
from factorax_traffic.city.env import write_programmes
from gymnasium.utils.env_checker import check_env

import factorax as fx

pytestmark = pytest.mark.sumo


@pytest.fixture
def env(network_files):
    city = CityEnv(*network_files, horizon=300)
    yield city
    city.close()


@pytest.mark.filterwarnings("ignore:.*Box.*")
def test_gymnasiums_own_check_and_ours(env, network_files):
    check_env(env, skip_render_check=True)
    env.close()
    fx.check_problem(lambda: CityEnv(*network_files, horizon=100), steps=12)


def shown(env, light):
    return env.simulation.api.trafficlight.getRedYellowGreenState(light)


def test_yellow_is_inserted_and_green_lasts(env):
    env.reset(seed=0)
    greens, states = env.roads.lights[0].greens, []
    env.every_second = lambda: states.append(shown(env, "A0"))
    env.step(np.array([0, 0, 0]))
    assert set(states) == {greens[0]}
    states.clear()
    env.step(np.array([1, 0, 0]))
    assert all("y" in state for state in states[:3])
    assert states[3:] == [greens[1]] * 7
    assert env.since.tolist() == [7, 20, 20]


def test_a_request_within_the_minimum_green_is_ignored(network_files):
    env = CityEnv(*network_files, horizon=60, interval=4, yellow=3, min_green=5)
    env.reset(seed=0)
    env.step(np.array([1, 0, 0]))
    env.step(np.array([0, 0, 0]))
    assert env.phase[0] == 1
    env.step(np.array([0, 0, 0]))
    assert env.phase[0] == 0
    env.close()


def test_a_junction_is_cleared_before_other_traffic_starts(env):
    env.reset(seed=0)
    light, protected = env.roads.lights[0], env._protected[0]
    link = next(i for i in range(protected.shape[1]) if 0 < protected[:, i].sum() < len(light.greens))
    lets_go = int(protected[:, link].argmax())
    other = int((~protected[:, link]).argmax())
    request = np.array([other, 0, 0])
    for standing, shown_phase in ((2, other), (3, lets_go)):
        env._inside = {0: [link] * standing}
        assert env._clearing(request).tolist() == [shown_phase, 0, 0]
    env.clearing = 0
    assert env._clearing(request).tolist() == request.tolist()


def test_green_waits_until_the_junction_is_clear(network_files):
    """Cars inside the junction are made up: the light stays red while they stand, at most `all_red` seconds."""
    env = CityEnv(*network_files, horizon=300, all_red=9)
    env.reset(seed=0)
    greens = env.roads.lights[0].greens
    states = []
    env.every_second = lambda: states.append(shown(env, "A0"))
    clear_after = 4  # seconds of red
    env._is_clear = lambda i, state: i != 0 or sum("y" not in x for x in states) >= clear_after
    env.step(np.array([1, 0, 0]))
    assert all("y" in state for state in states[:3])
    assert not any(set(state) & set("yY") for state in states[3:])
    assert all(state != greens[1] for state in states[3 : 3 + clear_after])
    assert states[3 + clear_after :] == [greens[1]] * (7 - clear_after)
    assert env._red == {}
    env._is_clear = lambda i, state: False
    states.clear()
    env.step(np.array([0, 0, 0]))
    assert greens[0] not in states
    assert env._red == {0: 7}
    states.clear()
    env.step(np.array([0, 0, 0]))
    assert states[2:] == [greens[0]] * 8
    assert env._red == {}
    env.close()


def test_a_junction_is_clear_without_slow_cars_in_it(env):
    env.reset(seed=0)
    api, name, link = env.simulation.api, *env._within[0][0]
    assert env._is_clear(0, "r" * 99)
    for speed, clear in ((0.0, False), (4.0, False), (9.0, True)):
        lane = SimpleNamespace(getLastStepVehicleIDs=lambda x: ("car",) if x == name else ())
        vehicle = SimpleNamespace(getSpeed=lambda x, speed=speed: speed)
        env.simulation.api = SimpleNamespace(lane=lane, vehicle=vehicle)
        assert env._is_clear(0, "r" * 99) == clear
        assert env._is_clear(0, "r" * link + "g" + "r" * 99)
    env.simulation.api = api


def test_a_car_that_does_not_move_ends_an_episode(network_files):
    """Lights that never change hold cars back for ever."""
    ends = {}
    for patience in (0, 60):
        env = CityEnv(*network_files, horizon=300, patience=patience)
        env.reset(seed=0)
        truncated = False
        while not truncated:
            _, _, _, truncated, info = env.step(np.array([0, 0, 0]))
        assert "score" in info
        ends[patience] = env.time
        longest = max(map(env.simulation.api.vehicle.getWaitingTime, env.simulation.api.vehicle.getIDList()))
        assert longest >= 60
        env.close()
    assert ends[0] == 300
    assert 60 <= ends[60] < 300


def test_targets_add_up_to_the_delay(env):
    env.reset(seed=0)
    total, rng = np.zeros(env.reward_dim), np.random.default_rng(0)
    truncated = False
    while not truncated:
        _, reward, _, truncated, info = env.step(rng.integers(0, env.action_space.nvec))
        assert reward == pytest.approx(info["vector_reward"].sum(), rel=1e-5)
        total += info["vector_reward"]
    score = info["score"]
    assert score.trips == 80
    assert score.collisions == score.teleports == 0
    assert -total.sum() / env.scale == pytest.approx(score.delay * score.trips, rel=0.05)
    assert -total.sum() / env.scale <= score.delay * score.trips + 1


def test_lanes_as_targets_sum_to_streets(network_files):
    sums = []
    for targets in ("street", "lane"):
        env = CityEnv(*network_files, horizon=60, targets=targets)
        env.reset(seed=3)
        psi = sum(env.step(np.array([k % 2, 0, 1]))[4]["vector_reward"] for k in range(6))
        sums.append(psi if targets == "street" else np.bincount(env.roads.street_of, psi))
        env.close()
    assert np.allclose(*sums, atol=1e-5)


def test_the_same_seed_gives_the_same_episode(env):
    def play():
        obs, _ = env.reset(seed=5)
        return [obs] + [env.step(np.array([k % 2, 1, 0]))[0] for k in range(10)]

    first, second = play(), play()
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"interval": 3}, "interval: got 3 s between decisions with 3 s of yellow"),
        ({"interval": 0}, "interval: got 0, want a whole number"),
        ({"reach": 0.0}, "reach: got 0"),
        ({"all_red": -1}, "all_red: got -1, want a whole number of at least 0"),
        ({"turns": 1}, "turns: got 1, want True or False"),
        ({"targets": "car"}, "targets: got 'car', want one of street, lane"),
        ({"programme": "own"}, "programme: got 'own'"),
        ({"begin": 5000}, "no trip departs from second 5000"),
        ({"network": "all"}, "network: got 'all'"),
    ],
)
def test_settings_that_make_no_sense(network_files, settings, message):
    with pytest.raises(ValueError, match=message):
        CityEnv(*network_files, **settings)


def test_actions_that_make_no_sense(env):
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"action: got shape \(2,\), want \(3,\)"):
        env.step(np.zeros(2, int))
    with pytest.raises(ValueError, match=r"action: got .*want for each light a phase from 0 to below"):
        env.step(np.array([0, 9, 0]))


@pytest.mark.marl
def test_as_a_pettingzoo_environment(network_files):
    pytest.importorskip("pettingzoo", reason="needs PettingZoo: pip install pettingzoo")
    with warnings.catch_warnings(action="ignore"):  # of what it imports
        from pettingzoo.test import parallel_api_test

    from factorax.integrations import to_pettingzoo

    view = to_pettingzoo(lambda: CityEnv(*network_files, horizon=60))
    assert view.possible_agents == ["A0", "B0", "C0"]
    assert [view.action_space(agent).n for agent in view.possible_agents] == list(view.env.unwrapped.roads.n_phases)
    parallel_api_test(view, num_cycles=8)
    view.reset(seed=0)
    _, rewards, *_ = view.step(dict.fromkeys(view.agents, 1))
    assert rewards.keys() == set(view.possible_agents)
    view.close()


def test_actuated_programmes_vary_green_and_not_yellow(network_files, tmp_path):
    write_programmes(network_files[0], "actuated", tmp_path / "a.xml", 3)
    logics = Xml.parse(tmp_path / "a.xml").getroot().findall("tlLogic")
    assert [logic.get("id") for logic in logics] == ["A0", "B0", "C0"]
    assert {logic.get("type") for logic in logics} == {"actuated"}
    for phase in logics[0].iter("phase"):
        if "y" in phase.get("state"):
            assert phase.get("duration") == "3"
            assert phase.get("minDur") is None
        else:
            assert float(phase.get("minDur")) < float(phase.get("maxDur"))
