"""A problem as one agent of RLlib."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from integrations.rllib.environments import HOST, mixed

from factorax.integrations.rllib import JointEnv

pytestmark = [pytest.mark.rllib, pytest.mark.filterwarnings("ignore")]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("ray.rllib", reason="RLlib is an extra, in an environment of its own", exc_type=ImportError)


def test_components_of_an_action_in_their_order():
    env = JointEnv({"problem": mixed()})
    assert isinstance(env.action_space, gym.spaces.Tuple)
    env.reset(seed=0)
    action = (np.float32([0.25]), np.float32([-0.5]), 2)
    _, reward, terminated, truncated, info = env.step(action)
    np.testing.assert_allclose(info["vector_reward"], [0.25, -0.5, 7.0])
    assert (reward, terminated, truncated) == (6.75, False, True)
    assert JointEnv({"problem": HOST}).action_space == gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    assert JointEnv({"problem": "CartPole-v1"}).action_space == gym.spaces.Discrete(2)
