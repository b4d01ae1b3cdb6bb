"""Problems as environments of RLlib: with an agent for each factor, and with one agent for all."""

import warnings
from functools import partial
from importlib.util import find_spec

import gymnasium as gym
import numpy as np
import pytest
from integrations.environments import EYE, Plain
from integrations.rllib.environments import HOST, mixed

import factorax as fx
from factorax.integrations import to_gymnasium
from factorax.integrations.rllib import JointEnv, _packages, to_rllib
from factorax.problems import chain, queues
from factorax.problems.registry import find_problem

pytestmark = [pytest.mark.rllib, pytest.mark.filterwarnings("ignore")]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("ray.rllib", reason="RLlib is an extra, in an environment of its own", exc_type=ImportError)
    from ray.rllib.utils.pre_checks.env import check_multiagent_environments

SUMO = pytest.param(
    "sumo:2x2",
    marks=pytest.mark.skipif(
        find_spec("factorax_traffic") is None or find_spec("libsumo") is None, reason="needs factorax-traffic[sumo]"
    ),
)


@pytest.mark.parametrize(
    "problem", ["chain:3", "queues:1x3", "contextual-bandit:3", "factorax/SearchBandit-v0", HOST, queues(2, 2), SUMO]
)
def test_rewards_of_agents_are_credits(problem):
    env = to_rllib(problem)
    check_multiagent_environments(env)
    n, m = env.network.shape
    assert len(env.possible_agents) == n
    obs, _ = env.reset(seed=3)
    assert set(obs) == set(env.possible_agents)
    actions = {agent: space.sample() for agent, space in env.action_spaces.items()}
    obs, rewards, terminated, truncated, _ = env.step(actions)
    assert all(env.observation_spaces[agent].contains(seen) for agent, seen in obs.items())
    assert terminated["__all__"] == all(terminated.values())
    assert truncated["__all__"] == all(truncated.values())
    env.close()  # a process has room for one of SUMO
    alone = to_gymnasium(find_problem(problem) if isinstance(problem, str) else problem)
    alone.reset(seed=3)
    row = env.view.factors.join([actions[agent] for agent in env.possible_agents])
    psi = alone.step(env.view.factors.components.to_environment(row))[4]["vector_reward"]
    assert psi.shape == (m,)
    np.testing.assert_allclose(list(rewards.values()), env.network.to_dense() @ (env.weights * psi), rtol=1e-6)
    alone.close()


def test_named_network_and_identity_of_agents():
    env = to_rllib("queues:2x2", "complete", identity=True)
    assert env.network.density == 1
    obs, _ = env.reset(seed=0)
    np.testing.assert_array_equal(np.stack(list(obs.values()))[:, -4:], np.eye(4))
    rewards = env.step(dict.fromkeys(env.agents, 1))[1]
    assert len(set(rewards.values())) == 1


def test_time_limit_truncates():
    env = to_rllib(chain(2, delay=1, horizon=3))
    env.reset(seed=0)
    for t in range(1, 4):
        _, _, terminated, truncated, _ = env.step(dict.fromkeys(env.possible_agents, np.zeros(1, np.float32)))
        assert (terminated["__all__"], truncated["__all__"]) == (False, t == 3)


def test_bad_input_is_named(monkeypatch):
    without = partial(Plain, network=EYE)
    for env in (to_rllib(without), JointEnv({"problem": without})):
        env.reset(seed=0)
        action = env.action_space.sample() if isinstance(env, JointEnv) else dict.fromkeys(env.agents, np.zeros(1))
        with pytest.raises(ValueError, match=r"returned only the reward, but the network has 2 targets; .*fx.wrap"):
            env.step(action)
    with pytest.raises(ValueError, match=r"network: has 3 rows, but the action space has 2 components"):
        to_rllib(HOST, fx.InfluenceNetwork.complete(3, 2))
    with pytest.raises(ValueError, match=r"weights: got .*, want \(2,\)"):
        to_rllib(HOST, weights=[1.0, 2.0, 3.0])
    with pytest.raises(TypeError, match=r"problem: got Plain, want a Problem or a function"):
        to_rllib(Plain())
    with pytest.raises(ValueError, match=r"problem: got 'chian'"):
        to_rllib("chian")
    with pytest.raises(ValueError, match=r"env_config: got \['network'\], want 'problem'"):
        JointEnv({"network": EYE})
    monkeypatch.setattr(_packages, "MISSING", ImportError("No module named 'ray'"))
    with pytest.raises(ImportError, match=r"to_rllib needs RLlib and PyTorch .* pip install 'factorax\[rllib\]'"):
        to_rllib("chain:3")


def test_joint_actions_keep_the_order_of_components():
    env = JointEnv({"problem": mixed()})
    assert isinstance(env.action_space, gym.spaces.Tuple)
    env.reset(seed=0)
    action = (np.float32([0.25]), np.float32([-0.5]), 2)
    _, reward, terminated, truncated, info = env.step(action)
    np.testing.assert_allclose(info["vector_reward"], [0.25, -0.5, 7.0])
    assert (reward, terminated, truncated) == (6.75, False, True)
    assert JointEnv({"problem": HOST}).action_space == gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    assert JointEnv({"problem": "CartPole-v1"}).action_space == gym.spaces.Discrete(2)
