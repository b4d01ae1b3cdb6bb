"""The collector of JAX problems."""

import dataclasses
from functools import partial

import equinox as eqx
import jax
import numpy as np
import pytest

from factorax.ppo import Config, Learner
from factorax.ppo.program import collect_part
from factorax.problems import chain, find_problem
from factorax.rollouts import in_jax
from factorax.spec import Spec


@pytest.mark.slow
def test_a_jax_collector_is_pure():
    config = Config(n_envs=4, n_steps=6, batch_size=12, n_epochs=1, hidden=(8,))
    learner = Learner.of(chain(3), config=config)
    collector, state = learner.new_collector(), learner.init(0)
    one, other = (collector.collect(learner.behaviour(state), state.environments, state.key)[2] for _ in range(2))
    np.testing.assert_array_equal(one.obs, other.obs)
    assert collector.episodes is None
    assert collector.metrics() == {}


@pytest.mark.parametrize("seeds", [None, 2])
def test_large_states_are_reset_only_where_an_episode_ended(monkeypatch, seeds):
    """Small initial states are computed for all steps at once, large ones when needed: the same episodes."""
    config = Config(n_envs=3, n_steps=25, batch_size=25, n_epochs=1, hidden=(8,))
    rollouts = []
    for largest in (in_jax.FIRST_STATES, 0):
        monkeypatch.setattr(in_jax, "FIRST_STATES", largest)
        learner = Learner.of(chain(3), config=config)
        collect = learner.collect if seeds is None else eqx.filter_vmap(learner.collect)
        state = learner.init(0) if seeds is None else eqx.filter_vmap(learner.init)(np.arange(seeds))
        rollouts.append(eqx.filter_jit(collect)(state)[1])
    assert rollouts[0].truncated.sum() + rollouts[0].terminated.sum() > 0
    for a, b in zip(*map(jax.tree.leaves, rollouts), strict=True):
        np.testing.assert_array_equal(a, b)


PARTS = {"n_envs": 16, "n_steps": 12, "batch_size": 48, "n_epochs": 1, "hidden": (8,)}


def numbers(tree):
    is_key = lambda x: jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key)  # noqa: E731
    return [np.asarray(jax.random.key_data(x) if is_key(x) else x) for x in jax.tree.leaves(tree)]


@pytest.mark.parametrize(
    ("problem", "settings"),
    [("chain:3", {}), ("chain:3", {"architecture": "gru", "sequence_length": 12}), ("queues:1x2", {})],
    ids=["numbers", "memory", "bits"],
)
def test_parts_of_a_rollout_are_those_of_the_whole(monkeypatch, problem, settings):
    """Keys, actions and episodes do not depend on how a rollout is divided."""
    monkeypatch.setattr(in_jax, "FIRST_STATES", 0)
    monkeypatch.setattr(in_jax, "available_cores", lambda: 2)
    learner = Learner.of(find_problem(problem), config=Config(**PARTS | settings))
    state = eqx.filter_jit(learner.collect)(learner.init(0))[0]
    whole = eqx.filter_jit(learner.collector.collect)(learner.behaviour(state), state.environments, state.key)
    part = eqx.filter_jit(partial(collect_part, learner, 2))
    joined = in_jax.JaxCollector.joined([part(state, jax.numpy.int32(i)) for i in range(2)])
    assert (joined[2].terminated | joined[2].truncated).any() or problem != "chain:3"
    for a, b in zip(numbers(whole), numbers(joined), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("n_envs", "cores", "parts"),
    [(8, 8, 1), (15, 8, 1), (16, 8, 2), (50, 8, 2), (64, 8, 8), (64, 6, 4), (512, 64, 8), (16, 2, 2), (64, 1, 1)],
)
def test_parts_have_at_least_eight_environments_and_a_core_each(monkeypatch, n_envs, cores, parts):
    monkeypatch.setattr(in_jax, "available_cores", lambda: cores)
    spec = Spec.of(chain(3))
    assert in_jax.JaxCollector(spec, n_envs, 1).parts == 1  # small states
    monkeypatch.setattr(in_jax, "FIRST_STATES", 0)
    assert in_jax.JaxCollector(spec, n_envs, 1).parts == parts


def test_observations_of_other_types_than_the_first_are_converted(monkeypatch):
    """A condition needs the same types in both branches, which `reset` and `step` of a problem may not have."""
    problem = chain(3)

    def reset(key):
        state, obs = problem.reset(key)
        return state, obs.astype("float32")

    def step(key, state, action):
        new = problem.step(key, state, action)
        return new._replace(obs=new.obs.astype("float16"))

    mixed = dataclasses.replace(problem, reset=reset, step=step)
    monkeypatch.setattr(in_jax, "FIRST_STATES", 0)
    learner = Learner.of(mixed, config=Config(**PARTS))
    _, transitions = eqx.filter_jit(learner.collect)(learner.init(0))
    assert transitions.obs.dtype == "float32"
