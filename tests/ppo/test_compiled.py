"""`Program`: a new model runs the code as it is now, and a model compiles each of its functions once."""

import gc
import importlib
import sys
import weakref

import equinox as eqx
import gymnasium as gym
import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from factorax.ppo.program import UpdateInParts
from small_settings import SMALL

from factorax import InfluenceNetwork
from factorax.ppo import Config, FactoredPPO, program
from factorax.problems import Problem, Step, contextual_bandit
from factorax.problems.registry import register
from factorax.rollouts import in_jax


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


SIZES = {"n_envs": 16, "batch_size": 48, "n_epochs": 2, "hidden": (8,), "learning_rate": 1e-2}


def agent_arrays(state):
    return jax.tree.leaves(eqx.filter(state.agent, eqx.is_array))


@pytest.mark.parametrize(("largest", "n_steps"), [(0, 6), (in_jax.FIRST_STATES, 9)], ids=["two parts", "one program"])
def test_an_update_in_parts_is_that_of_the_learner(monkeypatch, largest, n_steps):
    monkeypatch.setattr(in_jax, "FIRST_STATES", largest)
    monkeypatch.setattr(in_jax, "available_cores", lambda: 2)
    made = []

    class Noted(UpdateInParts):
        def __init__(self, *args):
            made.append(args)
            super().__init__(*args)

    monkeypatch.setattr(program, "UpdateInParts", Noted)
    model = FactoredPPO("queues:2x2", n_steps=n_steps, **SIZES)
    state = model.state
    expected, metrics = eqx.filter_jit(model.learner.update)(state)
    got, reported = model.program.update(state)
    assert len(made) == (largest == 0)
    for a, b in zip(agent_arrays(expected), agent_arrays(got), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    for a, b in zip(*(jax.tree.leaves(each.environments) for each in (expected, got)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    assert reported.keys() == metrics.keys()
    for name in ("train/value_loss", "train/policy_gradient_loss", "rollout/ep_rew_mean"):
        np.testing.assert_allclose(reported[name], metrics[name], rtol=1e-4, atol=1e-6)
    assert int(got.timesteps) == 16 * n_steps


def in_two_parts(collect, learn):
    """An update of a state of one number, whose rollout has two parts."""
    return UpdateInParts(collect, learn, jnp.float32(2.0), Config(), None, 2)


def added(state, parts):
    return state + parts[0] + parts[1], {}


def test_parts_have_numbers_and_arrive_in_order():
    update = in_two_parts(lambda state, number: state * 10.0**number, lambda state, parts: (jnp.stack(parts), {}))
    np.testing.assert_allclose(update(jnp.float32(2.0))[0], [2.0, 20.0])


def test_settings_of_the_calling_thread_apply_to_all_parts():
    update = in_two_parts(lambda state, number: jnp.log(state - number), added)
    assert np.isnan(update(jnp.float32(0.0))[0])
    with jax.debug_nans(True), pytest.raises(Exception, match="nan"):  # not a FloatingPointError in all versions
        update(jnp.float32(0.0))


def test_threads_end_with_the_update():
    update = in_two_parts(lambda state, number: state + number, added)
    update(jnp.float32(0.0))
    threads = update._threads._threads
    assert threads
    del update
    gc.collect()
    for thread in list(threads):
        thread.join(60.0)
        assert not thread.is_alive()


def test_a_program_that_could_not_be_compiled_is_compiled_again(monkeypatch):
    monkeypatch.setattr(in_jax, "FIRST_STATES", 0)
    monkeypatch.setattr(in_jax, "available_cores", lambda: 2)
    model = FactoredPPO("queues:2x2", n_steps=3, **SIZES)  # which no other test compiles

    def fail(self, *args, **kwargs):
        raise RuntimeError("out of memory")

    state = model.state
    with monkeypatch.context() as patch:
        patch.setattr(jax.stages.Lowered, "compile", fail)
        with pytest.raises(RuntimeError, match="out of memory"):
            model.program.update(state)
    assert int(model.program.update(state)[0].timesteps) == 16 * 3
