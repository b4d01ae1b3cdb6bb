"""Layers: what they compute, and how they begin."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factorax.learning.modules.mlp import ACTIVATIONS, MLP, LayerSettings


def test_layers_by_hand():
    net = MLP(jax.random.key(0), (3, 4, 2), 1.0, LayerSettings((4,), "relu", layer_norm=True))
    net = jax.tree.map(lambda x: x + 0.1 * jnp.arange(x.size).reshape(x.shape), net)
    x = jnp.float32([[1.0, -2.0, 0.5]])
    hidden = np.asarray(x @ net.kernels[0])
    hidden = (hidden - hidden.mean()) / np.sqrt(hidden.var() + 1e-6) * net.scales[0] + net.biases[0]
    want = np.maximum(hidden, 0) @ net.kernels[1] + net.biases[1]
    np.testing.assert_allclose(net(x), want, rtol=1e-5)
    np.testing.assert_allclose(net.features(x), np.maximum(hidden, 0), rtol=1e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_activation_is_applied_between_layers_and_not_after(activation):
    net = MLP(jax.random.key(0), (2, 3, 2), 1.0, LayerSettings((3,), activation))
    x = jnp.float32([0.3, -1.2])
    want = ACTIVATIONS[activation](x @ net.kernels[0]) @ net.kernels[1]
    np.testing.assert_allclose(net(x), want, rtol=1e-5)


@pytest.mark.parametrize(("init", "variance"), [("orthogonal", 2 / 64), ("lecun", 1 / 64), ("he", 2 / 64)])
def test_initial_weights_have_the_variance_of_their_rule(init, variance):
    """4,096 weights: their mean square is within 12 % of the variance with 99.9 % confidence."""
    kernel = LayerSettings(init=init).kernel(jax.random.key(0), (64, 64))
    assert abs(float((kernel**2).mean()) / variance - 1) < 0.12
    last = LayerSettings(init=init).kernel(jax.random.key(0), (64, 64), 0.01)
    np.testing.assert_allclose(last, kernel * 0.01 / 2**0.5, rtol=1e-4, atol=1e-7)
