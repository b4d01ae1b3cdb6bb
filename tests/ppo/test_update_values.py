"""Values of the next observations of a rollout, which are mostly those of the next step."""

import equinox as eqx
import jax
import numpy as np
import pytest

from factorax.ppo import Config, Learner
from factorax.problems import queues
from ppo.helping import random_network, rollout


@pytest.fixture(scope="module")
def case():
    config = Config(n_envs=3, n_steps=8, batch_size=12, n_epochs=1, hidden=(8,), policy="shared", critic="factor")
    learner = Learner.of(queues(2, 2, horizon=50), None, config)
    state = learner.init(0)
    agent = random_network(lambda: state.agent)
    values = eqx.filter_jit(learner.rule.rollout_values)
    directly = jax.jit(lambda obs: learner.rule.values(agent, obs, learner.see(obs)))
    return rollout(learner, state), lambda batch: values(agent, batch), directly


@pytest.mark.parametrize(
    ("steps", "changed"),
    [(slice(None), None), (slice(None), 4), (slice(None), 7), (slice(1), None)],
    ids=["one episode", "an episode that ends", "one that ends with the rollout", "one step"],
)
def test_next_values_are_those_of_the_next_observations(case, steps, changed):
    batch, values, directly = case
    batch = jax.tree.map(lambda x: np.array(x[steps]), batch)
    if changed is not None:  # the last observation of an episode is not the first one of the next
        batch.next_obs[changed, 1] += 1
    follows = (batch.obs[1:] == batch.next_obs[:-1]).all()
    assert follows == (changed != 4)
    now, following = values(batch)
    np.testing.assert_allclose(now, directly(batch.obs), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(following, directly(batch.next_obs), rtol=1e-5, atol=1e-6)
