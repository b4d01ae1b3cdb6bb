"""Callbacks: the forms in which they may be given, when they are called, and ready-made ones."""

import gymnasium as gym
import numpy as np
import pytest
from small_settings import SMALL

from factorax.ppo import (
    Callback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    FactoredPPO,
    ProgressBarCallback,
    StopTrainingOnRewardThreshold,
)
from factorax.ppo.callbacks import as_callback, returns_in
from factorax.problems import contextual_bandit


def learn(callback, steps=72):
    return FactoredPPO("contextual-bandit:3", **SMALL).learn(steps, callback, progress_bar=False)


class Note(Callback):
    def __init__(self, last=10**9):
        self.calls, self.last = [], last

    def on_training_start(self, model):
        self.calls.append(("start", model.num_timesteps, model.last_timestep))

    def on_rollout_end(self, model, metrics):
        self.calls.append(("rollout", model.num_timesteps, int(metrics["time/total_timesteps"])))
        return model.num_timesteps < self.last

    def on_training_end(self, model):
        self.calls.append(("end", model.num_timesteps))


def test_an_object_is_told_of_start_rollouts_and_end():
    note = Note()
    learn(note)
    assert note.calls == [("start", 0, 72), *[("rollout", n, n) for n in (24, 48, 72)], ("end", 72)]


def test_it_can_stop_training():
    assert learn(Note(last=48)).num_timesteps == 48
    assert learn(lambda model, metrics: False).num_timesteps == 24
    assert learn(lambda model, metrics: metrics["time/fps"] < 0).num_timesteps == 24  # of NumPy
    assert learn(lambda model, metrics: None).num_timesteps == 72
    assert learn(lambda model, metrics: 0).num_timesteps == 72  # only False itself stops


def test_all_of_a_list_are_called_even_if_one_stops():
    a, b, seen = Note(last=24), Note(), []
    learn([a, (b, lambda model, metrics: seen.append(1))])
    assert len(a.calls) == len(b.calls) == 3
    assert seen == [1]


def test_an_object_may_have_some_of_the_methods():
    class Ends:
        def on_training_end(self, model):
            self.steps = model.num_timesteps

    ends = Ends()
    learn(ends)
    assert ends.steps == 72


def test_the_end_is_told_after_an_error_too():
    note = Note()

    def fails(model, metrics):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        learn([note, fails])
    assert note.calls[-1] == ("end", 24)


@pytest.mark.parametrize("callback", [3, "every rollout", object()])
def test_what_is_refused(callback):
    with pytest.raises(TypeError, match=r"callback: got .*, want a function f\(model, metrics\)"):
        learn(callback)


def test_a_callback_of_stable_baselines3_is_called_for_every_step():
    """What `BaseCallback` of Stable-Baselines3 has, as far as it is used."""

    class Theirs:
        def __init__(self):
            self.calls = []

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return lambda *arguments: self.calls.append(name)

        def on_step(self):
            self.calls.append("on_step")
            return self.calls.count("on_step") < 9

    theirs = Theirs()
    assert learn(theirs).num_timesteps == 48  # the ninth step is in the second rollout
    assert theirs.calls[:3] == ["init_callback", "on_training_start", "on_rollout_start"]
    assert theirs.calls[-2:] == ["on_rollout_end", "on_training_end"]
    assert theirs.calls.count("on_step") == 9


def test_nothing_is_a_callback():
    assert isinstance(as_callback(None), Callback)
    assert CallbackList([]).on_rollout_end(None, {}) is True


def model(problem="contextual-bandit:3", **settings):
    return FactoredPPO(problem, **SMALL | settings)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.slow
def test_checkpoints_every_so_many_steps_of_an_environment(tmp_path):
    """Rollouts of 6 steps, a frequency of 10: due after 12, 24 and 30 of 36 steps."""
    ppo = model().learn(144, CheckpointCallback(10, tmp_path / "c", name_prefix="m"), progress_bar=False)
    assert names(tmp_path / "c") == ["m_120_steps.safetensors", "m_48_steps.safetensors", "m_96_steps.safetensors"]
    assert FactoredPPO.load(tmp_path / "c" / "m_96_steps").num_timesteps == 96
    ppo.learn(24, CheckpointCallback(6, tmp_path / "d"), reset_num_timesteps=False, progress_bar=False)
    assert names(tmp_path / "d") == ["rl_model_168_steps.safetensors"]


@pytest.mark.slow
def test_evaluation_keeps_the_best_model(tmp_path, capsys):
    evaluation = EvalCallback(
        eval_freq=6, n_eval_episodes=3, log_path=tmp_path / "log", best_model_save_path=tmp_path / "best"
    )
    ppo = model(learning_rate=1e-2).learn(144, evaluation, progress_bar=False)
    with np.load(tmp_path / "log" / "evaluations.npz") as file:
        np.testing.assert_array_equal(file["timesteps"], [24, 48, 72, 96, 120, 144])
        assert file["results"].shape == (6, 3)
        best = file["results"].mean(axis=1)
    assert evaluation.best_mean_reward == pytest.approx(best.max())
    assert evaluation.last_mean_reward == pytest.approx(best[-1])
    kept = FactoredPPO.load(tmp_path / "best" / "best_model")
    assert kept.num_timesteps == 24 * (1 + best.argmax())
    assert kept.evaluate(3)["return"] == pytest.approx(best.max(), rel=1e-5)
    assert capsys.readouterr().out.count("evaluation after") == 6
    assert ppo.num_timesteps == 144


@pytest.mark.slow
def test_training_stops_at_a_return():
    """Of the rollouts; of evaluations; not at one that is out of reach."""
    assert model().learn(72, StopTrainingOnRewardThreshold(-1e9), progress_bar=False).num_timesteps == 24
    stop = StopTrainingOnRewardThreshold(-1e9)
    evaluation = EvalCallback(callback_on_new_best=stop, eval_freq=12, verbose=0)
    assert model().learn(96, evaluation, progress_bar=False).num_timesteps == 48
    after = EvalCallback(callback_after_eval=lambda model, metrics: False, eval_freq=6, verbose=0)
    assert model().learn(96, after, progress_bar=False).num_timesteps == 24
    assert model().learn(72, StopTrainingOnRewardThreshold(1e9), progress_bar=False).num_timesteps == 72


@pytest.mark.slow
def test_where_to_evaluate():
    """A problem of its own, another one, a function that makes an environment, and an environment: equal where they
    must be."""
    ppo = model(lambda: gym.make("CartPole-v1"))
    assert returns_in(ppo, None, 3, True).shape == (3,)
    assert returns_in(ppo, lambda: gym.make("CartPole-v1", max_episode_steps=5), 4, True).tolist() == [5] * 4
    assert returns_in(ppo, gym.make("CartPole-v1", max_episode_steps=4), 2, True).tolist() == [4] * 2
    bandit = model()
    np.testing.assert_array_equal(returns_in(bandit, contextual_bandit(3), 5, True), returns_in(bandit, None, 5, True))


def test_a_bar_for_the_steps_of_a_call():
    bar = ProgressBarCallback()
    ppo = model().learn(48, bar, progress_bar=False)
    assert (bar.bar.tasks[0].total, bar.bar.tasks[0].completed) == (48, 48)
    ppo.learn(24, bar, reset_num_timesteps=False, progress_bar=False)
    assert (bar.bar.tasks[0].total, bar.bar.tasks[0].completed) == (72, 72)
    assert "steps/s" in bar.bar.tasks[0].description
