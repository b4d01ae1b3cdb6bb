"""`FactoredPPO`: learn, predict, evaluate, save, load."""

import copy
import dataclasses
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest
from rollouts.environments import Counter, Drift
from rollouts.vectors import Own, sync
from small_settings import SMALL

import factorax as fx
from factorax.ppo import Config, FactoredPPO, Learner
from factorax.ppo.model import vector_size
from factorax.problems import EpisodeLost, Step, contextual_bandit
from factorax.rollouts import LostWarning


def model(problem, network=None, **settings):
    return FactoredPPO(problem, network, **SMALL | settings)


def test_learn_predict_evaluate_save_load(tmp_path):
    ppo = model(lambda: Counter(cut=3), normalize_obs=True, normalize_reward=True)
    updates = []
    ppo.learn(72, progress_bar=False, callback=lambda m, metrics: updates.append(metrics) or len(updates) < 2)
    assert ppo.num_timesteps == 48  # the callback said so
    assert updates[0]["rollout/ep_len_mean"] == 3
    np.testing.assert_allclose(updates[0]["rollout/ep_targets_mean"], [3, 6])
    np.testing.assert_allclose(updates[0]["rollout/ep_rew_mean"], 15)
    result = ppo.evaluate(5)
    assert (result["return"], result["error"]) == (15, 0)
    assert len(result["episodes"]) == 5
    ppo.save(tmp_path / "m.safetensors")
    other = FactoredPPO.load(tmp_path / "m.safetensors", lambda: Counter(cut=3))
    obs = np.float32([[0.0], [1.0], [5.0]])
    np.testing.assert_array_equal(*(m.predict(obs, deterministic=True)[0] for m in (ppo, other)))
    assert Counter.action_space.contains(ppo.predict(obs[0])[0])
    assert len(ppo.predict(obs)[0]) == 3
    with pytest.raises(ValueError, match=r"observation: got shape \(2,\), want \(1,\), or that with a batch axis"):
        ppo.predict([1.0, 2.0])


@pytest.mark.filterwarnings(
    "ignore:policy. all actors read:factorax.structure.StructureWarning"
)  # episodes break or not
def test_lost_episodes_are_replaced_in_training_and_evaluation():
    class Fragile(Counter):
        def reset(self, *, seed=None, options=None):
            self.strong = seed % 3 > 0
            return super().reset(seed=seed)

        def step(self, action):
            if self.time == 2 and not self.strong:
                raise EpisodeLost("broke")
            return super().step(action)

    ppo = model(lambda: Fragile(cut=3), normalize_obs=True, normalize_reward=True)
    with pytest.warns(LostWarning, match=r"environment \d lost its episode and was reset: broke"):
        ppo.learn(24, progress_bar=False)
    assert ppo.num_timesteps == 24
    assert ppo.history[0]["rollout/ep_rew_mean"] == 15  # of whole episodes alone
    with pytest.warns(LostWarning, match=r"environment \d lost its episode and was reset: broke"):
        assert (ppo.evaluate(5)["episodes"] == 15).all()


@pytest.mark.slow
def test_factors_of_several_components_are_learnt():
    """Twins of K as one factor: with local policies, and a critic for every factor."""
    net = fx.InfluenceNetwork([[1, 0], [1, 0], [0, 1]])
    good = contextual_bandit(3)

    def step(key, state, action):
        new = good.step(key, state, action)
        return new._replace(psi=jnp.array([new.psi[0] + new.psi[1], new.psi[2]]))

    problem = dataclasses.replace(good, name="twins", step=step, network=net, weights=np.ones(2), local=None)
    ppo = model(problem, net.factor(net.minimum_factorisation()), critic="factor", policy="independent")
    ppo.learn(24, progress_bar=False)
    assert ppo.spec.n_factors == 2
    assert ppo.state.agent.critic(jnp.zeros(3), None).shape == (2,)


@pytest.mark.slow
def test_idle_factors_keep_their_policy():
    """Of independent policies, the one that is never asked does not move."""
    good = contextual_bandit(3)

    def step(key, state, action):
        return Step(*good.step(key, state, action)[:5], factor_mask=jnp.array([True, False, True]))

    ppo = model(dataclasses.replace(good, step=step), policy="independent")
    before = ppo.state.agent.policy.net.net.kernels[-1]
    ppo.learn(24, progress_bar=False)
    moved = (np.asarray(ppo.state.agent.policy.net.net.kernels[-1]) != before).any(axis=(1, 2))
    np.testing.assert_array_equal(moved, [True, False, True])


@pytest.mark.slow
def test_counting_and_episodes_start_over_or_continue():
    ppo = model(contextual_bandit(3))
    assert ppo.learn(48, progress_bar=False).num_timesteps == 48
    assert ppo.learn(24, reset_num_timesteps=False, progress_bar=False).num_timesteps == 72
    assert ppo.learn(24, progress_bar=False).num_timesteps == 24
    assert [int(row["time/total_timesteps"]) for row in ppo.history] == [24, 48, 72, 24]
    host = model(lambda: Counter(cut=9), check_network=False)
    host.learn(24, progress_bar=False)  # episodes of 9 steps, rollouts of 6
    host.learn(24, reset_num_timesteps=False, progress_bar=False)
    assert host.history[-1]["rollout/episodes"] == 4
    host.learn(24, progress_bar=False)
    assert host.history[-1]["rollout/episodes"] == 0  # they began anew


@pytest.mark.slow
def test_a_schedule_spans_a_call_of_learn():
    """In two rollouts the progress that remains is 1 and ½; continued for two more it is ½ and ¼ of a total of four."""
    ppo = model(contextual_bandit(3), learning_rate=lambda progress: progress)
    ppo.learn(48, progress_bar=False)
    ppo.learn(48, reset_num_timesteps=False, progress_bar=False)
    np.testing.assert_allclose([row["train/learning_rate"] for row in ppo.history], [1, 0.5, 0.5, 0.25], rtol=1e-5)


@pytest.mark.parametrize("steps", [-1, 1.5, "many", True, float("nan")])
def test_a_number_of_steps_is_checked(steps):
    with pytest.raises(ValueError, match=r"total_timesteps: got .*, want a whole number of at least 0"):
        model(contextual_bandit(3)).learn(steps)


def test_steps_may_be_a_whole_float():
    assert model(contextual_bandit(3)).learn(4.8e1, progress_bar=False).num_timesteps == 48


def test_repr_names_problem_actions_network_and_steps():
    text = repr(model("chain:3", "near", seed=None))
    for part in ("chain:3, in JAX", "3 × Gaussian, scaled to the bounds [-2, 2]", "3 actions → 3 targets", "0 steps"):
        assert part in text


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"problem": "MlpPolicy", "network": "CartPole-v1"}, TypeError, "factorax.integrations.PPO has the arguments"),
        ({"problem": "chain:3", "verbose": "yes"}, ValueError, "verbose: got 'yes', want a whole number"),
        ({"problem": "chain:3", "tensorboard_log": 3}, ValueError, "tensorboard_log: got 3, want a text, or None"),
        ({"problem": "chain:3", "weights": [1, 2, np.nan]}, ValueError, "weights: got .*, want finite numbers"),
    ],
)
def test_other_arguments_are_checked(arguments, error, message):
    with pytest.raises(error, match=message):
        FactoredPPO(**arguments)


def test_what_reset_returns_is_not_an_observation():
    with pytest.raises(ValueError, match=r"observation: got a pair, as returned by env.reset\(\)"):
        model(contextual_bandit(3)).predict((np.zeros(3), {}))


def test_threads_that_predict_draw_different_random_numbers():
    ppo = model(lambda: Counter(cut=3))
    ppo.predict([0.0])  # compiles
    with ThreadPoolExecutor(8) as threads:
        drawn = [actions[0].tolist() for actions in threads.map(lambda _: ppo.predict(np.zeros((50, 1))), range(200))]
    assert len(set(map(str, drawn))) == 200


@pytest.mark.parametrize("copied", [copy.deepcopy, pickle.dumps])
def test_a_model_is_copied_by_save_and_load_only(copied):
    with pytest.raises(TypeError, match=r"model\.save\(path\)"):
        copied(model(contextual_bandit(3)))


def test_a_network_of_several_targets_needs_an_environment_that_returns_them():
    with pytest.raises(ValueError, match=r"got 1 target, want 3, one per column of the influence network; .* reward="):
        model(lambda: gym.make("Pendulum-v1"), np.ones((1, 3))).learn(24, progress_bar=False)
    assert model(lambda: Counter(cut=3), Counter().network).spec.n_targets == 2  # in info["vector_reward"]


TINY = {"hidden": (4,), "n_epochs": 1, "check_network": False}


def test_it_is_taken_from_the_vector():
    assert fx.FactoredPPO(sync, n_steps=4, batch_size=4, **TINY).config.n_envs == 3
    assert fx.FactoredPPO(sync, n_steps=10, batch_size=30, **TINY).config.n_envs == 3  # 30 does not divide 8 × 10
    assert fx.FactoredPPO(partial(sync, n=1), n_steps=10, batch_size=5, **TINY).config.n_envs == 1
    assert fx.FactoredPPO(Drift, n_steps=4, batch_size=4, **TINY).config.n_envs == 8
    for settings in ({"batch_size": 7}, {"batch_size": 30, "n_envs": 8}):
        with pytest.raises(ValueError, match="batch_size: got"):
            fx.FactoredPPO(sync, n_steps=10, **settings, **TINY)


def test_another_number_is_refused_and_both_are_named():
    message = r"n_envs: got 8, .* num_envs = 3; want n_envs=3 \(the default\), or a multiple such as 9"
    with pytest.raises(ValueError, match=message):
        fx.FactoredPPO(sync, n_envs=8, n_steps=4, batch_size=4, **TINY)
    with pytest.raises(ValueError, match=message):
        Learner.of(sync, config=Config(n_envs=8))


def test_who_knows_is_not_asked_to_make_one():
    assert vector_size("chain:3") is None
    assert vector_size(fx.problems.chain(3)) is None
    assert vector_size(sync) == 3
    assert vector_size(Drift) is None
    made = []

    def make():
        made.append(Own())
        return made[-1]

    wrapped = fx.wrap(make)
    assert vector_size(wrapped) == 3
    assert len(made) == 1
    assert vector_size(fx.wrap(Drift, np.eye(3))) is None
