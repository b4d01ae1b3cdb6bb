"""A critic on the policy's hidden layers."""

import equinox as eqx
import jax
import numpy as np
import pytest
from ppo.helping import random_network
from small_settings import SMALL

from factorax.ppo import Config, Learner
from factorax.problems import contextual_bandit, queues


def test_a_value_is_linear_in_the_policys_features():
    learner = Learner.of(contextual_bandit(3), config=Config(**SMALL, policy="joint", critic="target,trunk=shared"))
    agent = random_network(lambda: learner.init().agent)
    obs = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)

    @eqx.filter_jit
    def values_and_gradient(agent):
        head, features = agent.critic.net, agent.policy.net.net.features(obs)
        values = lambda agent: agent.values(obs, None, (None, None))[0]  # noqa: E731
        gradient = eqx.filter_grad(lambda agent: values(agent).sum())(agent)
        return values(agent), features @ head.kernel + head.bias, gradient

    got, want, gradient = values_and_gradient(agent)
    np.testing.assert_allclose(got, want, atol=1e-6)
    assert np.abs(gradient.policy.net.net.kernels[0]).max() > 0  # both train the trunk


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["mlp", "gru,sequence_length=3"])
@pytest.mark.parametrize("critic", ["target", "factor"])
def test_it_trains_with_every_arrangement(architecture, critic):
    settings = SMALL | {"policy": "shared", "critic": f"{critic},trunk=shared"}
    learner = Learner.of(queues(2), config=Config(architecture=architecture, **settings))
    state, metrics = jax.jit(learner.update)(learner.init())
    assert np.isfinite(metrics["train/value_loss"])
    assert state.critic_memory is None
