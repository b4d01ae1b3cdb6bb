"""The forms in which callbacks may be given, and when they are called."""

import pytest
from small_settings import SMALL

from factorax.ppo import Callback, CallbackList, FactoredPPO
from factorax.ppo.callbacks import as_callback


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
