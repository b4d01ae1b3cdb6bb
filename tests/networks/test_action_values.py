"""The critic of actions: what a factor did itself changes nothing, and what others did does."""

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ppo.helping import random_network

from factorax.networks.action_values import ActionValues, _joined
from factorax.networks.arrangements import Encoded
from factorax.networks.mlp import LayerSettings
from factorax.observations import ObservationSpace

FACTORS = (0, 1, 0)


@pytest.fixture(params=[(), (6,), (6, 5)], ids=str, scope="module")
def net(request):
    encoder = Encoded(ObservationSpace.of(gym.spaces.Box(-1.0, 1.0, (4,), np.float32)))
    settings = LayerSettings(request.param, layer_norm=bool(request.param))
    key, sizes = jax.random.key(0), {"factors": FACTORS, "width": 2, "outputs": 3}
    return eqx.filter_jit(random_network(lambda: ActionValues(key, encoder, settings=settings, **sizes)))


def one_hot(*choices):
    return np.eye(2, dtype=np.float32)[list(choices)]


def test_only_the_actions_of_others_count(net):
    obs = np.arange(4, dtype=np.float32) / 4
    base, own, other = (np.asarray(net(obs, None, one_hot(*x))) for x in ((0, 0, 0), (1, 0, 1), (0, 1, 0)))
    assert base.shape == (2, 3)
    # Own actions are added with all others and subtracted again, and the layers magnify the rounding of both.
    np.testing.assert_allclose(own[0], base[0], atol=1e-5)  # factor 0 has components 0 and 2
    np.testing.assert_allclose(other[1], base[1], atol=1e-5)
    assert np.abs(own[1] - base[1]).max() > 1e-4
    assert np.abs(other[0] - base[0]).max() > 1e-4


def test_an_action_asked_for_replaces_that_of_the_factor_alone(net):
    taken, asked, zeros, ones = one_hot(1, 0, 1), one_hot(0, 1, 0), one_hot(0, 0, 0), one_hot(1, 1, 1)
    values, of_zeros, of_ones = (
        np.asarray(net(np.ones(4, np.float32), None, first, own=own))
        for first, own in ((taken, asked), (zeros, zeros), (ones, ones))
    )
    np.testing.assert_allclose(values[0], of_zeros[0], atol=1e-5)
    np.testing.assert_allclose(values[1], of_ones[1], atol=1e-5)


def test_batches_are_rows_one_by_one(net):
    rng = np.random.default_rng(0)
    obs, actions = rng.normal(size=(5, 4)).astype(np.float32), np.eye(2, dtype=np.float32)[rng.integers(2, size=(5, 3))]
    each = np.stack([net(o, None, a) for o, a in zip(obs, actions, strict=True)])
    np.testing.assert_allclose(net(obs, None, actions), each, atol=1e-5)


def test_an_error_in_common_moves_no_difference_on_average(net):
    """With the probabilities of a policy: that of an action that is taken more often does not move further."""
    obs, probabilities = np.ones(4, np.float32), np.float32([[0.7, 0.2, 0.1]] * 2)

    def value(differences, action):
        common = jnp.concatenate([jnp.zeros((2, 1)), differences], axis=-1)
        return _joined(common, probabilities)[0, action]

    gradient = jax.jit(jax.grad(value))
    gradients = np.stack([np.asarray(gradient(np.ones((2, 3), np.float32), b))[0] for b in range(3)])
    np.testing.assert_allclose(probabilities[0] @ gradients, 0.0, atol=1e-6)
    mean = (probabilities * np.asarray(net(obs, None, one_hot(0, 0, 0), probabilities=probabilities))).sum(axis=-1)
    other = np.asarray(net(obs, None, one_hot(0, 0, 0)))
    assert np.abs(mean - (probabilities * other).sum(axis=-1)).max() > 1e-4


def test_a_factor_sees_its_own_components():
    encoder = Encoded(ObservationSpace.of(gym.spaces.Box(-1.0, 1.0, (4,), np.float32)))
    settings = LayerSettings((6,))
    by_factor = Encoded(encoder.space, ((0, 2), (1, 3)))  # 3: none
    sizes = {"factors": FACTORS, "width": 2, "outputs": 3, "local": 5}
    key = jax.random.key(0)
    net = random_network(lambda: ActionValues(key, encoder, settings=settings, by_factor=by_factor, **sizes))

    @eqx.filter_jit
    def values(local):
        return net(np.ones(4, np.float32), local, one_hot(0, 0, 0))

    local = np.zeros((2, 3, 5), np.float32)
    local[1, 2, 4] = 1.0
    base, changed = map(np.asarray, map(values, local))
    assert np.abs(changed[0] - base[0]).max() > 1e-4
    np.testing.assert_allclose(changed[1], base[1])
