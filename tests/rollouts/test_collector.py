"""Collectors: who steps the environments makes no difference."""

from functools import partial

import jax
import numpy as np
import pytest
from small_settings import SMALL

import factorax as fx
from factorax.ppo import Config, FactoredPPO, Learner
from factorax.problems import chain
from factorax.rollouts import HostCollector, JaxCollector, Transition

FIELDS_OF_BOTH = ("obs", "action", "psi", "next_obs", "terminated", "truncated", "episode_psi", "episode_length")


@pytest.mark.slow
@pytest.mark.parametrize("normalize_obs", [False, True])
def test_all_collectors_give_the_same_fields_and_shapes(normalize_obs):
    """The same problem, stepped in the compiled program and as a Gymnasium environment."""
    problem = chain(3, delay=2, horizon=4)
    config = Config(**SMALL, policy="joint", normalize_obs=normalize_obs)
    rollouts = {}
    for source in (problem, partial(fx.integrations.to_gymnasium, problem)):
        learner = Learner.of(source, config=config)
        collector, state = learner.new_collector(), learner.init(0)
        environments = collector.init(jax.random.key(1))
        for _ in range(2):
            environments, key, transitions = collector.collect(learner.behaviour(state), environments, state.key)
            state = state._replace(key=key)
        assert collector.traced == learner.spec.is_jax
        assert jax.random.key_data(key).shape == jax.random.key_data(state.key).shape
        rollouts[type(collector)] = transitions
        returns = collector.play_episodes(learner.behaviour(state), 3, deterministic=True, seed=0)
        assert returns.shape == (3, 3)
        assert np.isfinite(returns).all()
        collector.close()
    in_jax, on_host = rollouts[JaxCollector], rollouts[HostCollector]
    assert {type(x) for x in rollouts.values()} == {Transition}
    for name, ours, theirs in zip(Transition._fields, in_jax, on_host, strict=True):
        assert (ours is None) == (theirs is None), name
    for name in FIELDS_OF_BOTH:
        ours, theirs = np.asarray(getattr(in_jax, name)), np.asarray(getattr(on_host, name))
        assert ours.shape == theirs.shape, name
        assert ours.dtype.kind == theirs.dtype.kind, name
        assert ours.shape[:2] == (SMALL["n_steps"], SMALL["n_envs"])
    for transitions in (in_jax, on_host):  # a horizon of 4: the second rollout of 6 steps ends two episodes
        np.testing.assert_array_equal(np.asarray(transitions.episode_length)[:, 0], [0, 4, 0, 0, 0, 4])


def test_a_jax_problem_is_not_stepped_by_processes():
    with pytest.raises(ValueError, match="rollouts: got 'processes' with a JAX problem"):
        FactoredPPO(chain(3), rollouts="processes", **SMALL)
