"""Attention over neighbours: what a component hears, and from whom."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from ppo.helping import random_network

from factorax import FactoredPPO, InfluenceNetwork
from factorax.networks.arrangements import Encoded
from factorax.networks.attention import HEADS, AttentionNetwork
from factorax.networks.mlp import LayerSettings
from factorax.observations import ObservationSpace
from factorax.spec import Spec

LINE = np.eye(5, k=1, dtype=bool) | np.eye(5, k=-1, dtype=bool)


def network(rounds=1, graph=LINE):
    inputs = Encoded(ObservationSpace.of(spaces.Box(-1.0, 1.0, (10,))))
    key, settings = jax.random.key(0), LayerSettings((8,))
    make = lambda: AttentionNetwork(key, inputs, 2, (5, 3), 1.0, settings, identity=2, graph=graph, rounds=rounds)  # noqa: E731
    return random_network(make), np.random.default_rng(1).normal(size=(4, 5, 2)).astype(np.float32)


def test_it_is_attention_over_the_graph():
    net, local = network()

    @eqx.filter_jit
    def by_hand(net, local):
        identity = jnp.broadcast_to(net.identity, (4, 5, 2))
        x = net.net.features(jnp.concatenate([local, identity], axis=-1))
        q, k, v = (jnp.einsum("bch,had->bcad", x, m[0]) for m in (net.queries, net.keys, net.values))
        scores = jnp.einsum("bcad,bnad->bacn", q, k) / (8 / HEADS) ** 0.5
        weights = jax.nn.softmax(jnp.where(LINE | np.eye(5, dtype=bool), scores, -jnp.inf), axis=-1)
        return x + jnp.einsum("bacn,bnad->bcad", weights, v).reshape(x.shape)

    features = eqx.filter_jit(lambda net, local: net.features(None, local))
    np.testing.assert_allclose(features(net, local), by_hand(net, local), atol=1e-5)


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_component_hears_of_as_many_edges_as_there_are_rounds(rounds):
    net, local = network(rounds)
    influence = jax.jit(jax.jacobian(lambda x: net(None, x).sum(axis=-1)))(local[0])
    reaches = np.abs(influence).max(axis=-1) > 1e-9
    steps = np.linalg.matrix_power(LINE.astype(int) + np.eye(5, dtype=int), rounds) > 0
    np.testing.assert_array_equal(reaches, steps)


def test_neighbours_are_given_or_share_a_target():
    space = spaces.MultiDiscrete([2] * 5)
    net = InfluenceNetwork(np.eye(5) + np.eye(5, k=1))
    spec = Spec.of_spaces(spaces.Box(-1.0, 1.0, (5,)), space, net)
    np.testing.assert_array_equal(spec.graph, LINE | np.eye(5, dtype=bool))
    given = Spec.of_spaces(spaces.Box(-1.0, 1.0, (5,)), space, net, neighbours=np.ones((5, 5)))
    assert given.graph.all()


def test_heads_divide_the_last_layer():
    with pytest.raises(ValueError, match="hidden: got a last layer of 6 for attention, want a multiple of 4"):
        FactoredPPO("queues:3", policy="shared", architecture="attention", hidden=(6,))
