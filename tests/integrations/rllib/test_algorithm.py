"""Factored PPO as an algorithm of RLlib: it learns, is saved and loaded, and refuses what it cannot do."""

import os
import warnings

import gymnasium as gym
import numpy as np
import pytest
from integrations.environments import EYE
from integrations.rllib.environments import HOST, mixed
from integrations.rllib.learner_cases import NETWORK, SPACES, Data, make_learner

from factorax.integrations.rllib import FactoredPPOAlgorithm, FactoredPPOConfig, JointEnv

pytestmark = [pytest.mark.rllib, pytest.mark.filterwarnings("ignore")]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("ray.rllib", reason="RLlib is an extra, in an environment of its own", exc_type=ImportError)


def test_algorithm_learns_saves_and_loads(tmp_path):
    config = (
        FactoredPPOConfig()
        .problem("contextual-bandit:6")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .training(lr=5e-3, train_batch_size_per_learner=256, minibatch_size=128, num_epochs=4)
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    for _ in range(8):
        result = algorithm.train()["env_runners"]
    assert result["episode_return_mean"] > 0.85 * 6  # chance has half of it
    folder = algorithm.save_to_path(str(tmp_path / "saved"))
    again = FactoredPPOAlgorithm.from_checkpoint(folder)
    assert again.config.network == algorithm.config.network
    ours, theirs = (one.get_module().state_dict() for one in (algorithm, again))
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name])
    algorithm.stop()
    again.stop()


def test_mixed_actions_with_remote_env_runners():
    config = (
        FactoredPPOConfig()
        .problem(mixed())
        .env_runners(num_env_runners=1)
        .training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=1)
    )
    algorithm = config.build_algo()
    result = algorithm.train()
    algorithm.stop()
    assert np.isfinite(result["learners"]["default_policy"]["total_loss"])


def test_bad_input_is_named():
    with pytest.raises(TypeError, match=r"network: got NoneType, want an InfluenceNetwork; use \.problem"):
        make_learner(SPACES["box"])
    with pytest.raises(ValueError, match=r"weights: got \[1.0\], want 2 finite numbers"):
        make_learner(SPACES["box"], network=NETWORK, weights=[1.0])
    with pytest.raises(ValueError, match=r"network: has 2 rows, but the action space has 3 components"):
        make_learner(SPACES["box"], network=EYE)
    with pytest.raises(ValueError, match=r"use_critic: got False, want True"):
        FactoredPPOConfig().training(network=EYE, use_critic=False).env_runners(
            batch_mode="complete_episodes"
        ).validate()
    with pytest.raises(ValueError, match=r"use_lstm: got True, want False"):
        FactoredPPOConfig().training(network=EYE).rl_module(model_config={"use_lstm": True}).validate()
    with pytest.raises(ValueError, match=r"multi_agent: got several agents"):
        FactoredPPOConfig().training(network=EYE).multi_agent(policies={"a", "b"}).validate()
    with pytest.raises(TypeError, match=r"action space: got Dict.*, want a Box or MultiDiscrete of one axis"):
        make_learner(gym.spaces.Dict(a=SPACES["box"]), network=NETWORK)
    of = make_learner(SPACES["box"], network=NETWORK)
    data = Data(SPACES["box"], 3, 3)
    with pytest.raises(ValueError, match=r'returned 3 in info\["vector_reward"\], but the network has 2 targets'):
        data.train_batch(of)
    data.infos = lambda t, b: {"vector_reward": np.zeros(2), "factor_mask": [True]}
    with pytest.raises(ValueError, match=r'info\["factor_mask"\] has shape \(1,\), want \(3,\)'):
        data.train_batch(of)
    data.infos = lambda t, b: {}
    with pytest.raises(ValueError, match="returned only the reward, but the network has 2 targets"):
        data.train_batch(of)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="a learner asks for a processor")
def test_two_remote_learners():
    config = (
        FactoredPPOConfig()
        .problem("contextual-bandit:4")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .learners(num_learners=2)
        .training(lr=1e-2, train_batch_size_per_learner=128, minibatch_size=64, num_epochs=4)
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    for _ in range(6):
        result = algorithm.train()["env_runners"]
    algorithm.stop()
    assert result["episode_return_mean"] > 0.75 * 4  # chance has half of it


def test_environment_and_network_set_as_in_rllib():
    """`environment` and `training(network=…)`, with λ of the user."""
    config = (
        FactoredPPOConfig()
        .environment(JointEnv, env_config={"problem": HOST})
        .env_runners(num_env_runners=0)
        .training(network=EYE, weights=np.array([1.0, 3.0]), train_batch_size_per_learner=32, minibatch_size=32)
        .training(num_epochs=1)
    )
    algorithm = config.build_algo()
    result = algorithm.train()
    algorithm.stop()
    assert np.isfinite(result["learners"]["default_policy"]["total_loss"])
