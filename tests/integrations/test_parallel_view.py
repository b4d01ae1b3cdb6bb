"""Problems as parallel environments of PettingZoo: its own suite, and rewards that are credits."""

import warnings

import jax
import numpy as np
import pytest
from integrations.view_cases import PROBLEMS, every_problem

from factorax.integrations import to_gymnasium, to_pettingzoo


class TestPettingZoo:
    pytestmark = pytest.mark.marl

    @pytest.fixture(autouse=True)
    def suite(self):
        pytest.importorskip("pettingzoo", reason="PettingZoo is an extra: factorax[marl]")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pettingzoo import test

            self.test = test

    @every_problem
    @pytest.mark.parametrize("observe", ["local", "global"])
    def test_pettingzoo_suite(self, problem, observe):
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

    def test_infos_tell_who_acted(self):
        view = to_pettingzoo(PROBLEMS["agents"])
        view.reset(seed=0)
        for _ in range(3):
            infos = view.step(dict.fromkeys(view.agents, 0))[4]
        assert [info["acted"] for info in infos.values()] == [False, True, True]
        with pytest.raises(ValueError, match="actions: got no action for agent"):
            view.step({})
