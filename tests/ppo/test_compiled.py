"""`Compiled`: a program per model, which runs the code as it is now, compiles once, fits memory, and is released."""

import dataclasses
import gc
import importlib
import json
import subprocess
import sys
import weakref
from pathlib import Path

import equinox as eqx
import gymnasium as gym
import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from small_settings import SMALL

from factorax import InfluenceNetwork
from factorax.ppo import Compiled, Config, FactoredPPO, Learner, compiled
from factorax.problems import Problem, Step, chain, contextual_bandit
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
        "import reloaded_helper\nfrom test_compiled import one_reward\n\n\n"
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
    alive = [weakref.ref(each) for each in (model.compiled, *model.compiled._programs.values())]
    assert len(alive) > 1
    del model
    gc.collect()
    assert [each() for each in alive] == [None] * len(alive)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="counts memory maps where Linux lists them")
@pytest.mark.parametrize(
    ("kind", "models", "maps_of_a_model", "mib_of_a_model"),
    [
        *(("same", 6, 3, 3), ("host", 6, 3, 3), ("different", 6, 150, 30)),
        *(pytest.param(kind, 100, 1, 1, marks=pytest.mark.nightly) for kind in ("same", "host")),
        pytest.param("different", 30, 150, 30, marks=pytest.mark.nightly),
    ],
)
def test_a_process_that_trains_many_models_does_not_grow(kind, models, maps_of_a_model, mib_of_a_model):
    """The programs of a model are released with it; they would take about 900 maps. For each shape that is new, JAX
    keeps programs of single operations and its traces."""
    command = [sys.executable, str(Path(__file__).with_name("many_models.py")), kind, str(models)]
    rows = [json.loads(line) for line in subprocess.check_output(command, text=True).splitlines()]
    (maps, resident), last = rows[1], rows[-1]
    assert len(rows) == models
    assert last[0] - maps <= maps_of_a_model * (models - 2)
    assert last[1] - resident <= mib_of_a_model * (models - 2) + 10


def counted(problem):
    """The problem, and a list that grows whenever JAX traces its step."""
    traces = []

    def step(key, state, action):
        traces.append(None)
        return problem.step(key, state, action)

    return dataclasses.replace(problem, step=step), traces


@pytest.mark.slow
def test_a_program_compiles_once_for_all_states():
    """Other seeds, other hyper-parameters and other numbers of updates do not compile it again; nor does one seed after
    several."""
    problem, traces = counted(chain(3, horizon=6))
    learner = Learner.of(problem, config=Config(**SMALL))
    programs = Compiled(learner)
    state, _ = programs.updates(learner.init(0))
    once = len(traces)
    assert once > 0
    for other in (state, learner.init(5), learner.init(0, learning_rate=0.1, clip_range=0.5)):
        programs.updates(other, 3)
    assert len(traces) == once
    states = eqx.filter_vmap(learner.init)(jnp.arange(3))
    states, metrics = programs.updates(states)
    assert metrics["train/loss"].shape == (programs.max_updates, 3)
    twice = len(traces)
    assert twice > once
    programs.updates(states, 2)
    programs.updates(state)
    assert len(traces) == twice


@pytest.mark.slow
def test_an_evaluation_compiles_once_for_its_number_of_episodes():
    problem, traces = counted(chain(3, horizon=6))
    learner = Learner.of(problem, config=Config(**SMALL))
    play = Compiled(learner).collector.play_episodes
    play(learner.behaviour(learner.init(0)), 3, deterministic=True, seed=0)
    once = len(traces)
    play(learner.behaviour(learner.init(1)), 3, deterministic=True, seed=1)
    assert len(traces) == once


def assert_equal(one, other):
    """Compare all arrays of two trees, bit for bit."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(*(jax.tree.leaves(tree) for tree in (one, other)), strict=True):
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"architecture": "gru,sequence_length=3", "normalize_obs": True}], ids=str)
def test_five_updates_in_one_call_are_five_calls(settings):
    learner = Learner.of(chain(3, horizon=6), config=Config(**SMALL, **settings, check_network=True))
    programs = Compiled(learner)
    together, metrics = programs.updates(learner.init(0), 5)
    state = learner.init(0)
    for i in range(5):
        state, one = programs.updates(state, 1)
        for name, value in one.items():
            np.testing.assert_array_equal(metrics[name][i], value[0], err_msg=name)
    assert_equal(together, state)


@pytest.mark.slow
def test_a_program_gives_what_the_pure_update_gives():
    learner = Learner.of(chain(3, horizon=6), config=Config(**SMALL))
    state = learner.init(0)
    (one, _), (other, _) = Compiled(learner).updates(state), eqx.filter_jit(learner.update)(state)
    assert_equal(one._replace(key=None), other._replace(key=None))


@pytest.mark.slow
def test_seeds_in_one_program_start_like_single_seeds():
    learner = Learner.of(chain(3, horizon=6), config=Config(**SMALL))
    programs = Compiled(learner)
    states = programs.init_seeds([3, 4])
    for i, seed in enumerate((3, 4)):
        assert_equal(jax.tree.map(lambda x, i=i: x[i], states), programs.init(seed))
    states, metrics = programs.updates(states, 2)
    assert np.isfinite(metrics["train/loss"][:2]).all()


def test_a_history_does_not_keep_the_arrays_of_programs():
    """They have room for `MAX_UPDATES` updates, and there are up to 10,000 entries."""
    model = FactoredPPO(contextual_bandit(3), **SMALL).learn(48, progress_bar=False)
    assert all(np.ndim(value) == 0 or value.base is None for row in model.history for value in row.values())


CONFIG = Config(n_envs=64, n_steps=25, batch_size=100, n_epochs=1)


def test_an_update_that_fits_is_accepted():
    compiled.check_memory(2**30, 2**30, CONFIG)
    compiled.check_memory(2**40, None, CONFIG)


@pytest.mark.parametrize(
    ("free", "want"), [(2**29, "n_envs=32"), (2**29 - 1, "n_envs=28"), (2**20, "a smaller n_steps")]
)
def test_n_envs_that_would_fit_is_named(free, want):
    with pytest.raises(MemoryError, match=f"n_envs: got 64.* needs 1 GiB and the device has .*want {want}, or fewer"):
        compiled.check_memory(2**30, free, CONFIG)


@pytest.mark.slow
def test_a_run_that_cannot_fit_does_not_start(monkeypatch):
    monkeypatch.setattr(compiled, "available_memory", lambda config: 10**6)
    model = FactoredPPO(contextual_bandit(100), n_envs=1000, n_steps=100, batch_size=1000, n_epochs=1)
    with pytest.raises(MemoryError, match="n_envs: got 1000"):
        model.learn(100_000, progress_bar=False)
    assert model.num_timesteps == 0


def test_estimated_memory_covers_the_results(monkeypatch):
    """A program that returns a thousand copies of an array needs at least as much."""
    needs = []
    monkeypatch.setattr(compiled, "check_memory", lambda needed, *_: needs.append(needed))
    programs = Compiled(Learner.of(contextual_bandit(3), config=Config(**SMALL)))
    programs._program(
        "copies", lambda x: jnp.broadcast_to(x, (1000, 1000)) * jnp.arange(1000.0)[:, None], jnp.ones(1000)
    )
    assert 4 * 1000 * 1000 <= needs[0] <= 1.1 * 4 * 1000 * 1000 + 10**5


@pytest.mark.slow
def test_peak_memory_is_a_metric():
    model = FactoredPPO(contextual_bandit(4), n_envs=4, n_steps=4, batch_size=16, n_epochs=1)
    model.learn(16, progress_bar=False)
    assert 0.05 < model.history[0]["time/peak_gib"] < 100


@pytest.mark.parametrize(
    ("flags", "disabled", "backend", "chosen"),
    [
        ("", False, "cpu", True),
        ("--xla_backend_optimization_level=1", False, "cpu", False),
        ("", True, "cpu", False),
        ("", False, "gpu", False),
    ],
    ids=["usual", "of the user", "quick to compile", "on a GPU"],
)
def test_the_level_of_optimisation_is_lower_on_a_cpu(monkeypatch, flags, disabled, backend, chosen):
    monkeypatch.setenv("XLA_FLAGS", flags)
    monkeypatch.setattr(jax.config, "read", lambda name: disabled)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    compiled._compiler_options.cache_clear()
    assert (compiled._compiler_options() is not None) == chosen
    compiled._compiler_options.cache_clear()
