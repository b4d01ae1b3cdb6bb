"""`Program`: a new model runs the code as it is now, and a model compiles each of its functions once."""

import gc
import importlib
import sys
import weakref

import gymnasium as gym
import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from small_settings import SMALL

from factorax import InfluenceNetwork
from factorax.learning import FactoredPPO
from factorax.problems import Problem, Step, contextual_bandit
from factorax.problems.registry import register


class Reward:
    size = 1.0


def bonus():
    return 1.0


def one_reward(reward):
    """Return a problem of one-step episodes with this reward, whatever the action."""

    def step(key, state, action):
        obs, ended = jnp.zeros(1), jnp.bool_(True)
        return Step(state, obs, jnp.ones(1) * reward(), ended, jnp.bool_(False))

    return Problem(
        name="one-reward",
        reset=lambda key: (jnp.zeros(()), jnp.zeros(1)),
        step=step,
        observation_space=gym.spaces.Box(-1, 1, (1,)),
        action_space=gym.spaces.MultiBinary(1),
        network=InfluenceNetwork.complete(1, 1),
        weights=np.ones(1),
    )


def learnt(problem):
    """Return the mean return of a new model in its first update."""
    return FactoredPPO(problem, **SMALL).learn(24, progress_bar=False).history[-1]["rollout/ep_rew_mean"]


def test_a_new_model_runs_a_changed_class_attribute(monkeypatch):
    problem = one_reward(lambda: Reward.size)
    assert learnt(problem) == 1
    monkeypatch.setattr(Reward, "size", 100.0)
    assert learnt(problem) == 100


def test_a_new_model_runs_a_redefined_function(monkeypatch):
    problem = one_reward(lambda: bonus())
    assert learnt(problem) == 1
    monkeypatch.setitem(globals(), "bonus", lambda: 100.0)
    assert learnt(problem) == 100


def test_a_new_model_runs_a_reloaded_module(tmp_path, monkeypatch):
    """Also where the problem has a registered name, and where only a helper of its module is reloaded."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # written twice in one second
    helper, family = tmp_path / "reloaded_helper.py", tmp_path / "reloaded_family.py"
    helper.write_text("def bonus():\n    return 1.0\n")
    family.write_text(
        "import reloaded_helper\nfrom test_program import one_reward\n\n\n"
        "def make(text=''):\n    return one_reward(lambda: reloaded_helper.bonus())\n"
    )
    monkeypatch.syspath_prepend(str(__file__).rpartition("/")[0])
    register("reloaded-family", "reloaded_family:make")
    make = importlib.import_module("reloaded_family").make
    assert learnt("reloaded-family:") == learnt(make()) == 1
    helper.write_text("def bonus():\n    return 100.0\n")
    importlib.reload(sys.modules["reloaded_helper"])
    assert learnt("reloaded-family:") == learnt(make()) == 100


@pytest.mark.parametrize(
    "make",
    [lambda: contextual_bandit(3), pytest.param(lambda: lambda: gym.make("CartPole-v1"), marks=pytest.mark.slow)],
    ids=["jax", "host"],
)
def test_a_model_compiles_nothing_after_its_first_use(make):
    events = []  # not every version of JAX can stop listening

    def note(event, seconds, **_):
        if event.endswith("backend_compile_duration"):
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    model = FactoredPPO(make(), **SMALL)

    def use():
        model.learn(24, progress_bar=False)
        model.evaluate(2)
        model.predict(model.observation_space.sample())
        return len(events)

    use()
    after_restart = use()
    assert use() == after_restart > 0


def test_programs_are_released_with_the_model():
    model = FactoredPPO(contextual_bandit(3), **SMALL)
    model.learn(24, progress_bar=False)
    model.evaluate(2)
    alive = [weakref.ref(each) for each in (model.program, model.program._learn_from)]
    del model
    gc.collect()
    assert [each() for each in alive] == [None, None]
