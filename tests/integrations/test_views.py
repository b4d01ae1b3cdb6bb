"""Problems for other trainers: the suites of Gymnasium and PettingZoo, and credits that add up to the gradient's."""

import warnings

import gymnasium as gym
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from integrations.environments import EYE, Agents, Plain

import factorax as fx
from factorax.integrations import to_gymnasium, to_pettingzoo
from factorax.integrations.views import Factors
from factorax.problems import chain, contextual_bandit, queues

PROBLEMS = {
    "bandit": contextual_bandit(3),
    "chain": chain(3, delay=2, horizon=6),
    "queues": queues(2, 2, horizon=12),
    "wrapped": fx.wrap(Plain, EYE, reward="info:a,b.c"),
    "agents": fx.wrap(Agents, fx.InfluenceNetwork.identity(3)),
}
every = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)


@every
@pytest.mark.filterwarnings("ignore:.*(symmetric and normalized|maximum and minimum values are equal)")
def test_gymnasiums_own_suite(problem):
    check_env(to_gymnasium(problem), skip_render_check=True)


def test_the_gymnasium_view_is_the_problem():
    problem = PROBLEMS["chain"]
    env = to_gymnasium(problem)
    first, _ = env.reset(seed=3)
    again, _ = env.reset(seed=3)
    np.testing.assert_array_equal(first, again)
    total = np.zeros(3)
    action = np.float32([0.1, 0.2, 0.3])
    for t in range(6):
        _, reward, terminated, truncated, info = env.step(action)
        assert (terminated, truncated) == (False, t == 5)
        np.testing.assert_allclose(reward, info["vector_reward"].sum(), rtol=1e-12)
        total += info["vector_reward"]
    assert (total < 0).all()
    assert env.network is problem.network
    with pytest.raises(TypeError, match="problem: got str, want a Problem or a function that makes a"):
        to_gymnasium("CartPole-v1")


def test_what_each_factor_may_do():
    space = gym.spaces.Dict({"a": gym.spaces.Box(-1, 1, (2,), np.float32), "b": gym.spaces.MultiDiscrete([2, 3])})
    make = fx.wrap(lambda: Plain(action_space=space), fx.InfluenceNetwork.complete(4, 2), reward="info:a,b.c")
    net = make().network
    groupings = {
        "each": (net, [("Box", (1,)), ("Box", (1,)), 2, 3]),
        "leaves": (net.factor([net.actions[:2], net.actions[2:]]), [("Box", (2,)), [2, 3]]),
        "mixed": (net.factor([net.actions[:3], net.actions[3:]]), ["Tuple", 3]),
    }
    for network, want in groupings.values():
        factors = Factors(make, network, None, None, "local")
        for one, w in zip(factors.spaces, want, strict=True):
            match w:
                case int():
                    assert one == gym.spaces.Discrete(w)
                case list():
                    assert one == gym.spaces.MultiDiscrete(w)
                case ("Box", shape):
                    assert one.shape == shape
                case _:
                    assert isinstance(one, gym.spaces.Tuple)
        row = factors.together([one.sample() for one in factors.spaces])
        assert make().action_space.contains(factors.space.to_environment(row))
    with pytest.raises(ValueError, match='observe: got \'some\', want "local" or "global"'):
        Factors(make, None, None, None, "some")
    schedule = fx.NetworkSchedule(net, net, steps=3)
    with pytest.raises(TypeError, match="network: got NetworkSchedule, want an InfluenceNetwork; a view"):
        Factors(make, schedule, None, None, "local")


class TestPettingZoo:
    pytestmark = pytest.mark.marl

    @pytest.fixture(autouse=True)
    def suite(self):
        pytest.importorskip("pettingzoo", reason="PettingZoo is an extra: factorax[marl]")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pettingzoo import test

            self.test = test

    @every
    @pytest.mark.parametrize("observe", ["local", "global"])
    def test_its_own_suite(self, problem, observe):
        self.test.parallel_api_test(to_pettingzoo(problem, observe=observe), num_cycles=40)
        self.test.parallel_seed_test(lambda: to_pettingzoo(problem, observe=observe), num_cycles=12)

    def test_rewards_are_credits(self):
        problem = PROBLEMS["queues"]
        weights = np.array([1.0, 2.0, 0.5, 1.0])
        view, env = to_pettingzoo(problem, weights=weights), to_gymnasium(problem)
        seen, _ = view.reset(seed=5)
        obs, _ = env.reset(seed=5)
        for t in range(12):
            np.testing.assert_array_equal(np.stack(list(seen.values())), jax.jit(problem.local)(obs))
            np.testing.assert_array_equal(view.state(), obs)
            actions = dict.fromkeys(view.agents, t % 2)
            seen, rewards, terminated, truncated, _ = view.step(actions)
            obs, _, _, _, info = env.step(np.full(4, t % 2))
            want = problem.network.to_dense() @ (weights * info["vector_reward"])
            np.testing.assert_allclose(list(rewards.values()), want, rtol=1e-12)
            assert not any(terminated.values())
            assert set(truncated.values()) == {t == 11}
        assert view.agents == []
        assert view.possible_agents == list(problem.network.actions)

    def test_who_acted_is_said(self):
        view = to_pettingzoo(PROBLEMS["agents"])
        view.reset(seed=0)
        for _ in range(3):
            infos = view.step(dict.fromkeys(view.agents, 0))[4]
        assert [info["acted"] for info in infos.values()] == [False, True, True]
        with pytest.raises(ValueError, match="actions: there is none for agent"):
            view.step({})
