"""Critics of factors with several components see what these see, and nothing else."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factorax_paper.market import market
from ppo.helping import random_network

from factorax.networks.arrangements import Encoded, Joint, Shared
from factorax.observations import ObservationSpace
from factorax.ppo import Config, Learner

MARKET = market(3)


def critic(network, **settings):
    """The critic of a market, and a function from inventories to its values."""
    config = Config(**{"policy": "shared", "critic": "factor", "hidden": (4,)} | settings)
    learner = Learner.of(MARKET, MARKET.influence(network), config=config)
    critic = random_network(lambda: learner.init().agent.critic)
    values = eqx.filter_jit(lambda rows: critic(rows, learner.rule.local(rows)))
    return critic.net, lambda inventory: np.asarray(values(np.float32([1.0, *inventory])))


def test_the_critic_of_a_group_sees_its_own_inventory_alone():
    net, values = critic("minimum")
    assert isinstance(net, Shared)
    before, after = values([0.2, -0.4, 0.6]), values([0.2, 0.4, 0.6])
    assert before.shape == (3,)
    assert (before != after).tolist() == [False, True, False]
    np.testing.assert_allclose(values([0.6, 0.6, 0.2])[:2], before[2], rtol=1e-6)  # one function for all of them


@pytest.mark.parametrize(
    ("network", "settings"),
    [("minimum", {"policy": "joint"}), ("singletons", {"method": "ppo"}), ("minimum", {"critic": "target"})],
)
def test_other_critics_see_everything(network, settings):
    net, _ = critic(network, **settings)
    assert isinstance(net, Joint)


def test_rows_of_components_are_joined_and_padded():
    encoder = Encoded(ObservationSpace.of(MARKET.observation_space), ((0, 2), (1, 3)))
    local = jnp.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(encoder.inputs(jnp.zeros(4), local, 2), [[0, 1, 4, 5], [2, 3, 0, 0]])
    assert encoder.input_size(2) == 4
    assert encoder.inputs(jnp.zeros((5, 4)), None, 2).shape == (5, 2, 4)
    assert encoder.input_size(None) == 4
    assert jax.tree.leaves(encoder) == []  # nothing to learn
