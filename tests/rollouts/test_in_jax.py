"""The collector of JAX problems."""

import numpy as np
import pytest

from factorax.learning import Config, Learner
from factorax.problems import chain
from factorax.rollouts import collector_for


@pytest.mark.slow
def test_a_jax_collector_is_pure():
    config = Config(n_envs=4, n_steps=6, batch_size=12, n_epochs=1, hidden=(8,))
    learner = Learner.of(chain(3), config=config)
    collector, state = collector_for(learner.spec, config), learner.init(0)
    one, other = (collector.collect(learner.behaviour(state), state.environments, state.key)[2] for _ in range(2))
    np.testing.assert_array_equal(one.obs, other.obs)
    assert collector.episodes is None
    assert collector.metrics() == {}
