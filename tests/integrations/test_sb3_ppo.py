"""A script that was written for Stable-Baselines3 runs with `PPO` of factorax."""

import gymnasium as gym
import numpy as np
import pytest

from factorax import FactoredPPO
from factorax.integrations import PPO
from factorax.problems import chain

SMALL = {"n_steps": 16, "batch_size": 8, "n_epochs": 1}


def test_defaults_are_those_of_stable_baselines3():
    config = PPO("MlpPolicy", "CartPole-v1").config
    assert (config.policy.name, config.method.name, config.n_envs, config.n_steps) == ("joint", "ppo", 1, 2048)
    assert (config.batch_size, config.n_epochs, config.learning_rate) == (64, 10, 3e-4)


def test_arguments_by_position():
    config = PPO("MlpPolicy", "CartPole-v1", 1e-3, 32, 16, 2, 0.9, 0.8, 0.1, 0.3, False, 0.01, 0.6, 0.7).config
    got = config.learning_rate, config.n_steps, config.batch_size, config.n_epochs, config.gamma, config.gae_lambda
    assert got == (1e-3, 32, 16, 2, 0.9, 0.8)
    got = config.clip_range, config.clip_range_vf, config.normalize_advantage, config.ent_coef, config.vf_coef
    assert (*got, config.max_grad_norm) == (0.1, 0.3, False, 0.01, 0.6, 0.7)
    with pytest.raises(TypeError, match=r"PPO: got 3 arguments by position, want each of .* once"):
        PPO("MlpPolicy", "CartPole-v1", 1e-3, learning_rate=1e-3)


@pytest.mark.slow
def test_the_users_environment_is_stepped_and_stays_open():
    env = gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))
    model = PPO("MlpPolicy", env, **SMALL).learn(64)
    assert getattr(model.get_env(), "envs", [model.get_env()])[0] is env  # vectorised, where SB3 is installed
    assert model.config.n_envs == 1
    assert env.episode_count >= 1
    model.close()
    assert env.reset(seed=0)[0].shape == (4,)  # still open


def test_a_problem_with_a_network_is_factored():
    assert PPO("MlpPolicy", chain(3), n_steps=32, n_envs=2).config.method.name == "factored"


def test_policy_kwargs():
    kwargs = {"net_arch": {"pi": [8, 4], "vf": [8, 4]}, "log_std_init": -1.0}
    kwargs["activation_fn"] = type("ReLU", (), {})  # as torch.nn.ReLU
    config = PPO("MlpPolicy", "CartPole-v1", policy_kwargs=kwargs).config
    assert (config.hidden, config.distribution.initial_log_std, config.activation) == ((8, 4), -1.0, "relu")
    with pytest.raises(ValueError, match="want the same layers for both networks"):
        PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": {"pi": [8], "vf": [4]}})
    with pytest.raises(ValueError, match="policy_kwargs: got 'ortho_init', want one of net_arch"):
        PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"ortho_init": False})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"use_sde": True}, "use_sde: got True, which is not available .*; want False"),
        ({"policy": "CnnPolicy"}, "policy: got 'CnnPolicy', want 'auto', 'joint', 'shared' or 'independent'"),
        ({"n_envs": 3}, "n_envs: got 3, but env contains 1"),
    ],
)
def test_bad_input_is_named(arguments, message):
    arguments = {"policy": "MlpPolicy", "env": gym.make("CartPole-v1")} | arguments
    with pytest.raises(ValueError, match=message):
        PPO(**arguments)


@pytest.mark.slow
def test_load_with_an_environment_and_without(tmp_path):
    model = PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(32)
    model.save(tmp_path / "cartpole")
    named, given = PPO.load(tmp_path / "cartpole"), PPO.load(tmp_path / "cartpole", env=gym.make("CartPole-v1"))
    assert isinstance(named, PPO)
    obs = np.float32([[0.1, 0, 0, 0], [0, 0, 0.1, 0]])
    for other in (named, given):
        assert isinstance(other, FactoredPPO)
        actions = [each.predict(obs, deterministic=True)[0] for each in (model, other)]
        np.testing.assert_array_equal(*actions)


@pytest.mark.slow
def test_evaluation_does_not_step_training_environments():
    """Twenty steps an episode, rollouts of eight: three episodes of 64 steps end, whether or not it is evaluated."""
    settings = {"n_steps": 8, "batch_size": 8, "n_epochs": 1, "seed": 0}
    counts = []
    for callback in (None, lambda model, metrics: bool(model.evaluate(1))):
        model = PPO("MlpPolicy", gym.make("Pendulum-v1", max_episode_steps=20), **settings).learn(64, callback)
        counts.append(sum(int(row["rollout/episodes"]) for row in model.history))
    assert counts == [3, 3]


def test_unregistered_environment_is_not_evaluated():
    env = gym.make("CartPole-v1").unwrapped
    env.spec = None
    with pytest.raises(ValueError, match="evaluate: the environment is not registered with Gymnasium"):
        PPO("MlpPolicy", env, **SMALL).evaluate(1)


def test_get_env_of_a_name():
    env = PPO("MlpPolicy", "CartPole-v1", **SMALL).get_env()
    assert env.observation_space.shape == (4,)


def test_a_schedule_may_end_at_zero():
    config = PPO("MlpPolicy", "CartPole-v1", clip_range=lambda progress: 0.2 * progress, **SMALL).config
    assert config.clip_range[0] == 0.0


@pytest.mark.slow
def test_discrete_observations_in_batches():
    model = PPO("MlpPolicy", "FrozenLake-v1", **SMALL)
    assert model.predict(3)[0].shape == ()
    assert model.predict(np.array([3]))[0].shape == (1,)
    assert model.predict(np.array([3, 4]))[0].shape == (2,)


@pytest.mark.sb3
def test_wrappers_of_vectorised_environments_are_refused():
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    with pytest.raises(TypeError, match=r"env: got VecNormalize, .*want normalize_obs and normalize_reward"):
        PPO("MlpPolicy", VecNormalize(make_vec_env("CartPole-v1", 2)))


@pytest.mark.sb3
def test_logger_of_stable_baselines3(tmp_path):
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.logger import configure

    model = PPO("MlpPolicy", gym.make("CartPole-v1"), **SMALL)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(32)
    model.logger.close()
    assert "train/loss" in (tmp_path / "progress.csv").read_text()


@pytest.mark.sb3
def test_a_notebook_of_stable_baselines3_runs_with_the_import_changed(tmp_path):
    """Constructor, learn twice, predict, callbacks, save, load, evaluate_policy, TensorBoard: all of it SB3's own code
    but the class `PPO`."""
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.callbacks import (
        BaseCallback,
        CheckpointCallback,
        EvalCallback,
        StopTrainingOnRewardThreshold,
    )
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    class Count(BaseCallback):
        def __init__(self):
            super().__init__()
            self.steps = 0

        def _on_step(self):
            self.steps += 1
            self.logger.record("custom/steps", self.steps)
            return True

    vec_env = make_vec_env("CartPole-v1", n_envs=4, seed=0)
    model = PPO(
        "MlpPolicy",
        vec_env,
        learning_rate=lambda progress: 1e-3 * progress,
        n_steps=32,
        batch_size=32,
        n_epochs=4,
        gamma=0.98,
        tensorboard_log=tmp_path / "tb",
        verbose=0,
        seed=None,
        device="cpu",
    )
    count = Count()
    evaluation = EvalCallback(
        make_vec_env("CartPole-v1"),
        callback_on_new_best=StopTrainingOnRewardThreshold(1e6),
        eval_freq=64,
        n_eval_episodes=2,
        best_model_save_path=str(tmp_path / "best"),
        log_path=str(tmp_path / "best"),
        verbose=0,
    )
    checkpoints = CheckpointCallback(save_freq=64, save_path=str(tmp_path / "checkpoints"))
    model.learn(total_timesteps=512, callback=[count, evaluation, checkpoints])
    assert (model.num_timesteps, count.steps) == (512, 128)
    assert np.isfinite(evaluation.best_mean_reward)
    assert (tmp_path / "best" / "evaluations.npz").exists()
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2
    model.learn(total_timesteps=256, reset_num_timesteps=False, tb_log_name="PPO")
    assert model.num_timesteps == 768
    assert len(list((tmp_path / "tb").iterdir())) == 1  # continued
    model.learn(total_timesteps=256)
    assert model.num_timesteps == 256
    assert len(list((tmp_path / "tb").iterdir())) == 2
    obs = vec_env.reset()
    action, states = model.predict(obs, deterministic=True)
    assert action.shape == (4,)
    assert states is None
    vec_env.step(action)
    mean, deviation = evaluate_policy(model, vec_env, n_eval_episodes=4)
    assert mean > 0 <= deviation
    model.save(str(tmp_path / "ppo_cartpole"))
    loaded = PPO.load(str(tmp_path / "ppo_cartpole"), env=vec_env)
    assert evaluate_policy(loaded, make_vec_env("CartPole-v1", seed=1), 2)[0] > 0
    loaded.learn(total_timesteps=128)
