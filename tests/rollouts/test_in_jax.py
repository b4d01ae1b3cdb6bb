"""The collector of JAX problems."""

import dataclasses

import equinox as eqx
import jax
import numpy as np
import pytest
from small_settings import SMALL

from factorax.ppo import Config, Learner
from factorax.problems import chain
from factorax.rollouts import in_jax


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
    learner = Learner.of(mixed, config=Config(**SMALL))
    _, transitions = eqx.filter_jit(learner.collect)(learner.init(0))
    assert transitions.obs.dtype == "float32"
