"""A critic on the policy's hidden layers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_settings import SMALL

from factorax.learning import Config, Learner
from factorax.problems import contextual_bandit, queues


def test_a_value_is_linear_in_the_policys_features():
    learner = Learner.of(contextual_bandit(3), config=Config(**SMALL, trunk="shared"))
    agent = learner.init().agent
    obs = jax.random.normal(jax.random.key(0), (5, 3))
    head = agent.critic.net
    features = agent.policy.net.net.features(obs)
    want = features @ head.kernel + head.bias
    np.testing.assert_allclose(learner.rule.values(agent, obs, None), want, atol=1e-6)
    gradient = eqx.filter_grad(lambda agent: learner.rule.values(agent, obs, None).sum())(agent)
    assert float(jnp.abs(gradient.policy.net.net.kernels[0]).max()) > 0  # both train the trunk


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["mlp", "gru"])
@pytest.mark.parametrize("critic", ["target", "factor"])
def test_it_trains_with_every_arrangement(architecture, critic):
    settings = SMALL | {"policy": "shared", "critic": critic, "trunk": "shared", "sequence_length": 3}
    learner = Learner.of(queues(2), config=Config(architecture=architecture, **settings))
    state, metrics = jax.jit(learner.update)(learner.init())
    assert np.isfinite(metrics["train/value_loss"])
    assert state.critic_memory is None
