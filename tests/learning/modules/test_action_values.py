"""The critic of actions: what a factor did itself changes nothing, and what others did does."""

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factorax.learning.modules.action_values import ActionValues
from factorax.learning.modules.arrangements import Encoded
from factorax.learning.modules.mlp import LayerSettings
from factorax.observations import ObservationSpace

FACTORS = (0, 1, 0)


@pytest.fixture(params=[(), (6,), (6, 5)], ids=str)
def net(request):
    encoder = Encoded(ObservationSpace.of(gym.spaces.Box(-1.0, 1.0, (4,), np.float32)))
    settings = LayerSettings(request.param, layer_norm=bool(request.param))
    net = ActionValues(jax.random.key(0), encoder, factors=FACTORS, width=2, outputs=3, settings=settings)
    return eqx.filter_jit(net)


def one_hot(*choices):
    return jax.nn.one_hot(jnp.array(choices), 2)


def test_only_the_actions_of_others_count(net):
    obs = jnp.arange(4.0) / 4
    base = net(obs, one_hot(0, 0, 0))
    assert base.shape == (2, 3)
    own, other = net(obs, one_hot(1, 0, 1)), net(obs, one_hot(0, 1, 0))
    np.testing.assert_allclose(own[0], base[0], atol=1e-6)  # factor 0 has components 0 and 2
    np.testing.assert_allclose(other[1], base[1], atol=1e-6)
    assert np.abs(own[1] - base[1]).max() > 1e-4
    assert np.abs(other[0] - base[0]).max() > 1e-4


def test_an_action_asked_for_replaces_that_of_the_factor_alone(net):
    obs, taken, asked = jnp.ones(4), one_hot(1, 0, 1), one_hot(0, 1, 0)
    values = net(obs, taken, asked)
    np.testing.assert_allclose(values[0], net(obs, one_hot(0, 0, 0), one_hot(0, 0, 0))[0], atol=1e-6)
    np.testing.assert_allclose(values[1], net(obs, one_hot(1, 1, 1), one_hot(1, 1, 1))[1], atol=1e-6)


def test_batches_are_rows_one_by_one(net):
    obs = jax.random.normal(jax.random.key(1), (5, 4))
    actions = jax.nn.one_hot(jax.random.randint(jax.random.key(2), (5, 3), 0, 2), 2)
    each = jnp.stack([net(o, a) for o, a in zip(obs, actions, strict=True)])
    np.testing.assert_allclose(net(obs, actions), each, atol=1e-5)
