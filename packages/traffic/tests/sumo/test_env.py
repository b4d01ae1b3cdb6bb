"""The benchmark in SUMO 1.28.0: known returns, Gymnasium's own checks, and what a second simulation meets."""

import gymnasium as gym
import numpy as np
import pytest
from factorax_traffic import Traffic
from factorax_traffic.controllers import actuated, always, every, gap_out, never, replay
from factorax_traffic.targets import global_reward
from gymnasium.utils.env_checker import check_env

pytestmark = pytest.mark.sumo


def episode(env, controller, seed=0, steps=400):
    """Observations, targets and cars of one episode."""
    obs, info = env.reset(seed=seed)
    seen, psi, cars, memory = [obs], [], [info["cars"]], controller.memory
    for t in range(steps):
        request, memory = controller.act(obs, t, memory)
        obs, reward, terminated, truncated, info = env.step(request)
        assert not terminated
        assert truncated == (t + 1 == env.traffic.horizon)
        if env.traffic.norm == "global":
            assert abs(reward - info["global_reward"]) < 1e-12
        seen.append(obs)
        psi.append(env.traffic.targets(env.read()))
        assert abs(reward - psi[-1].sum()) < 1e-12
        np.testing.assert_allclose(info["vector_reward"], psi[-1], rtol=1e-6)
        cars.append(info["cars"])
    return np.array(seen), np.array(psi), np.array(cars)


KNOWN = [
    ((3, 3), always, 0, -232.9364, 56.70),
    ((3, 3), lambda grid: every(grid, 10), 0, -265.3760, 60.90),
    ((3, 3), lambda grid: every(grid, 20), 0, -1605.0673, 77.50),
    ((3, 3), never, 0, -7462.1810, 112.53),
    ((3, 3), gap_out, 0, -159.8876, 48.02),
    ((3, 3), gap_out, 1, -149.8264, 47.20),
    ((2, 6), always, 0, -260.9755, 75.38),
    ((2, 6), lambda grid: every(grid, 10), 0, -304.0841, 79.90),
    ((2, 6), lambda grid: every(grid, 20), 0, -1941.4873, 98.59),
    ((2, 6), never, 0, -5042.7952, 88.56),
    ((2, 6), gap_out, 0, -144.5987, 60.83),
    ((2, 6), gap_out, 1, -164.8839, 63.35),
]


@pytest.mark.parametrize(("size", "controller", "seed", "known", "cars"), KNOWN)
def test_known_returns(size, controller, seed, known, cars, sumo):
    env = sumo(*size)
    _, psi, count = episode(env, controller(env.grid), seed)
    assert psi.sum() == pytest.approx(known, abs=1e-3)
    assert count[1:].mean() == pytest.approx(cars, abs=0.006)


def test_lights_left_to_sumo(sumo):
    """Delay and cars at speed 0, means of three seeds, of Flow's static programme and of SUMO's actuated lights."""
    for program, delay, stopped in (("static", 230.7, 1360.0), ("actuated", 203.7, 75.7)):
        env = sumo(program=program, standstill=0.0)
        returns = [episode(env, never(env.grid), seed)[1].sum() for seed in range(3)]
        assert -np.mean(returns) == pytest.approx(delay + stopped, rel=0.002)


@pytest.mark.parametrize("size", [(3, 3), (2, 6)])
def test_our_actuated_lights_are_near_to_sumos(size, sumo):
    """They see less: returns differ by an eighth at most, where gap-out has less than half of them."""
    returns = []
    for program, make in (("actuated", never), ("green", actuated)):
        env = sumo(*size, program=program)
        returns.append(np.mean([episode(env, make(env.grid), seed)[1].sum() for seed in range(2)]))
    sumos, ours = returns
    assert ours == pytest.approx(sumos, rel=0.15)


def test_the_static_programme_turns_after_38_seconds(sumo):
    env = sumo(program="static")
    env.reset(seed=0)
    shown = []
    for _ in range(60):
        env.step(np.zeros(9))
        shown.append(env.simulation.api.trafficlight.getRedYellowGreenState("center0"))
    assert [shown.index(state) for state in ("GrGr", "yryr", "rGrG")] == [0, 36, 43]
    env.reset(seed=0)
    for _ in range(60):
        env.step(np.zeros(9))
    env.step(np.eye(9, dtype=int)[0])
    state = env.simulation.api.trafficlight.getRedYellowGreenState
    assert (state("center0"), state("center1")) == ("yryr", "rGrG")  # what was asked, and what goes on


def test_same_seed_same_episode_and_other_seeds_hardly_differ(sumo):
    env = sumo()
    first, again, other = (episode(env, always(env.grid), seed, 100) for seed in (3, 3, 4))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert 0 < abs(first[1].sum() - other[1].sum()) < 1


def test_a_light_changes_nothing_outside_its_corridor(sumo):
    """To the last bit, all that every other street reads."""
    env = sumo(norm="fixed")
    requests = np.random.default_rng(0).random((150, 9)) < 0.2
    _, before, _ = episode(env, replay(requests), steps=150)
    corridor = env.traffic.influence("corridor").to_dense()
    for light in (0, 4):
        other = requests.copy()
        other[:, light] = np.random.default_rng(light + 1).random(150) < 0.2
        _, after, _ = episode(env, replay(other), steps=150)
        changed = (before != after).any(axis=0)
        assert changed.any()
        assert not changed[~corridor[light]].any()


@pytest.mark.filterwarnings("ignore:.*(render|Box).*")
def test_gymnasiums_own_check(sumo):
    check_env(sumo(horizon=20), skip_render_check=True)
    check_env(sumo(2, 2, horizon=20, action="gaussian", kind="lights"), skip_render_check=True)
    sumo(1, 1)  # closes the other
    env = gym.make("factorax_traffic.sumo:factorax/Traffic-v0", rows=1, columns=2, horizon=5)
    env.reset(seed=0)
    assert [env.step(env.action_space.sample())[3] for _ in range(5)] == [False] * 4 + [True]
    env.close()


def test_the_learners_own_check():
    from factorax_traffic.sumo import TrafficEnv

    from factorax import check_problem

    check_problem(lambda: TrafficEnv(Traffic(2, 2, horizon=20)), steps=30)


def test_flows_defects_are_switches(sumo):
    env = sumo(2, 6, flow_inflows=True)
    episode(env, always(env.grid), steps=60)
    flows = {name.partition(".")[0] for name in env.simulation.cars()[0]}
    assert {"flow0", "flow2"} <= flows  # northbound in the first two columns, and in no other
    assert not flows & {"flow4", "flow6", "flow8", "flow10"}
    env = sumo(1, 1, flow_persist=True)
    env.reset(seed=0)
    env.step(np.ones(1))
    obs, _ = env.reset(seed=0)
    assert obs[-3:].tolist() == [0, 1, 1]  # yellow began before
    env = sumo(1, 1)
    env.reset(seed=0)
    env.step(np.ones(1))
    assert env.reset(seed=0)[0][-3:].tolist() == [0, 0, 0]


def test_demand_by_chance_differs_from_seed_to_seed(sumo):
    env = sumo(stochastic=True)
    counts = [episode(env, always(env.grid), seed, 100)[2] for seed in (0, 0, 1)]
    np.testing.assert_array_equal(counts[0], counts[1])
    assert (counts[0] != counts[2]).any()


def test_other_targets(sumo):
    env = sumo(kind="lights", norm="local", initial="everywhere")
    env.reset(seed=0)
    assert env.network.shape == (9, 9)
    _, reward, _, _, info = env.step(np.zeros(9))
    assert info["cars"] == 36
    assert reward == pytest.approx(info["vector_reward"].sum(), rel=1e-6)
    assert info["global_reward"] == pytest.approx(global_reward(env.read()))
    assert info["global_reward"] != pytest.approx(reward, rel=0.1)


def test_an_empty_grid_reads_zero():
    from factorax_traffic.sumo.env import read

    grid, none = Traffic(2, 2).grid, np.zeros(0)
    for reading in read(grid, none.astype(int), none, none, 0.3):
        assert not reading.any()
