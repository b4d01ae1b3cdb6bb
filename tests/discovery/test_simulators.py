"""Simulators with trained policies whose raw actions are not those of the environment."""

import jax
import numpy as np
import pytest

from factorax.discovery.simulators import simulator_of


@pytest.mark.slow
def test_simulators_play_the_actions_that_the_environment_receives(bounded_model):
    """Within the bounds of the space, on both sides of its middle."""
    simulator = simulator_of(bounded_model.spec.problem, 8, bounded_model)
    actions = np.concatenate([simulator.acted(seed) for seed in range(20)])
    assert np.abs(actions).max() <= 1
    assert actions.min() < -0.2 < 0.2 < actions.max()
    obs = np.zeros((1, bounded_model.spec.n_inputs), np.float32)
    raw = bounded_model.learner.act(bounded_model.state, jax.random.key(0), obs)[0]
    played = simulator.policy(jax.random.key(0), obs[0])
    np.testing.assert_allclose(played, bounded_model.spec.components.to_environment(np.asarray(raw)), atol=1e-6)
