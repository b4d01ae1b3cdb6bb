"""Layers: what they compute, and how they begin."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_settings import SMALL

from factorax import FactoredPPO
from factorax.networks import Attention, Gru, Mlp
from factorax.networks.mlp import ACTIVATIONS, MLP, LayerSettings
from factorax.ppo import Config, Learner
from factorax.problems import queues


def test_layers_by_hand():
    net = MLP(jax.random.key(0), (3, 4, 2), 1.0, LayerSettings((4,), "relu", layer_norm=True))
    net = jax.tree.map(lambda x: np.float32(np.asarray(x) + 0.1 * np.arange(x.size).reshape(x.shape)), net)
    x = np.float32([[1.0, -2.0, 0.5]])
    hidden = x @ net.kernels[0]
    hidden = (hidden - hidden.mean()) / np.sqrt(hidden.var() + 1e-6) * net.scales[0] + net.biases[0]
    want = np.maximum(hidden, 0) @ net.kernels[1] + net.biases[1]
    got, features = jax.jit(lambda net, x: (net(x), net.features(x)))(net, x)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    np.testing.assert_allclose(features, np.maximum(hidden, 0), rtol=1e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_activation_is_applied_between_layers_and_not_after(activation):
    net = MLP(jax.random.key(0), (2, 3, 2), 1.0, LayerSettings((3,), activation))
    x = np.float32([0.3, -1.2])
    first, second = map(np.asarray, net.kernels)
    want = np.asarray(ACTIVATIONS[activation](x @ first)) @ second
    np.testing.assert_allclose(jax.jit(lambda net, x: net(x))(net, x), want, rtol=1e-5)


@pytest.mark.parametrize(("init", "variance"), [("orthogonal", 2 / 64), ("lecun", 1 / 64), ("he", 2 / 64)])
def test_initial_weights_have_the_variance_of_their_rule(init, variance):
    """4,096 weights: their mean square is within 12 % of the variance with 99.9 % confidence."""
    kernel = np.asarray(LayerSettings(init=init).kernel(jax.random.key(0), (64, 64)))
    assert abs(float((kernel**2).mean()) / variance - 1) < 0.12
    last = LayerSettings(init=init).kernel(jax.random.key(0), (64, 64), 0.01)
    np.testing.assert_allclose(last, kernel * 0.01 / 2**0.5, rtol=1e-4, atol=1e-7)


def thirds(key, shape, dtype):
    return jnp.full(shape, 1 / 3, dtype)


def test_a_custom_initialiser_makes_hidden_layers_and_the_last_ones_are_scaled():
    """By 0.01 / √2 in the policy and 1 / √2 in the critic, as for lecun and he."""
    agent = FactoredPPO("contextual-bandit:3", architecture=Mlp(init=thirds), **SMALL).state.agent
    for net, last in ((agent.policy.net.net, 0.01 / 2**0.5), (agent.critic.net.net, 1 / 2**0.5)):
        np.testing.assert_allclose(net.kernels[0], 1 / 3, rtol=1e-6)
        np.testing.assert_allclose(net.kernels[-1], last / 3, rtol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {"policy": "independent", "critic": "factor"},
        {"policy": "shared", "architecture": Attention(init=thirds)},
        {"architecture": Gru(3, init=thirds)},
        {"critic": "auto,trunk=shared"},
        {"method": "coma"},
    ],
    ids=["independent", "attention", "gru", "trunk", "coma"],
)
def test_every_network_uses_a_custom_initialiser(settings):
    learner = Learner.of(queues(2), config=Config(**SMALL | {"architecture": Mlp(init=thirds)} | settings))
    agent = eqx.filter_jit(lambda: learner.init().agent)()
    for net in (agent.policy.net, agent.critic.net):
        assert any(np.ptp(x) == 0 < np.max(x) for x in jax.tree.leaves(net) if x.ndim > 1)


def test_a_model_with_a_custom_initialiser_loads_without_it(tmp_path):
    model = FactoredPPO("contextual-bandit:3", architecture=Mlp(init=thirds), **SMALL)
    for _ in range(2):  # a loaded model is saved and loaded in the same way
        model.save(tmp_path / "model")
        loaded = FactoredPPO.load(tmp_path / "model")
        for a, b in zip(jax.tree.leaves(model.state.agent), jax.tree.leaves(loaded.state.agent), strict=True):
            np.testing.assert_array_equal(a, b)
        model = loaded


@pytest.mark.slow
def test_training_with_a_custom_initialiser_resumes_bit_for_bit(tmp_path):
    settings = SMALL | {"architecture": Mlp(init=jax.nn.initializers.glorot_uniform())}
    whole = FactoredPPO("contextual-bandit:3", **settings).learn(48, progress_bar=False)
    half = FactoredPPO("contextual-bandit:3", **settings).learn(24, progress_bar=False)
    half.save(tmp_path / "half")
    again = FactoredPPO.load(tmp_path / "half").learn(24, reset_num_timesteps=False, progress_bar=False)
    for a, b in zip(jax.tree.leaves(whole.state.agent), jax.tree.leaves(again.state.agent), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("init", "error", "message"),
    [
        (
            lambda key, shape, dtype: jnp.ones((3, 3)),
            ValueError,
            r"init: .* returns shape \(3, 3\) of float32, want .*",
        ),
        (lambda key, shape, dtype: jnp.ones(shape, int), ValueError, r"init: .* of int32, want .* floats"),
        (lambda key, shape, dtype: 0.1, TypeError, r"init: .* returns 0.1, want a function \(key, shape, dtype\)"),
        (jax.nn.initializers.glorot_uniform, TypeError, r"init: .* returns <function .*glorot_uniform\(\)"),
        ("custom", ValueError, r"init: got 'custom', which stands for a function that is not in the file or text"),
        (0.1, ValueError, r"init: got 0.1, want a text among 'orthogonal'"),
    ],
)
def test_a_custom_initialiser_that_does_not_fit_is_refused(init, error, message):
    with pytest.raises(error, match=message):
        FactoredPPO("contextual-bandit:3", architecture=Mlp(init=init), **SMALL)


def test_an_error_in_a_custom_initialiser_says_how_it_was_called():
    with pytest.raises(TypeError) as caught:
        FactoredPPO("contextual-bandit:3", architecture=Mlp(init=lambda key, shape: jnp.ones(shape)), **SMALL)
    assert any("init: in " in note and "(key, shape, dtype)" in note for note in caught.value.__notes__)
