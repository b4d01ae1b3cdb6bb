"""FiLM: components that scale and shift the layers of a shared network."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factorax.learning import Config, Learner
from factorax.problems import queues

SETTINGS = {"n_envs": 2, "n_steps": 4, "batch_size": 8, "hidden": (4,), "policy": "shared", "identity": 3}


@pytest.mark.slow
def test_all_components_begin_with_the_same_network_and_then_differ():
    learner = Learner.of(queues(3), config=Config(identity_by="film", **SETTINGS))
    net = learner.init().agent.policy.net
    c, size = learner.spec.see(np.zeros(learner.spec.n_inputs), np).shape
    local = jnp.broadcast_to(jax.random.normal(jax.random.key(0), (size,)), (c, size))
    np.testing.assert_allclose(net(None, local), jnp.broadcast_to(net(None, local)[:1], (c, 2)), rtol=1e-6)
    moved = jax.tree.map(lambda x: x, net)
    moved.modulations[0] = moved.modulations[0] + 0.3
    out = moved(None, local)
    assert len({tuple(np.asarray(row)) for row in out}) == c
    scale, shift = jnp.split(moved.identity @ moved.modulations[0], 2, axis=-1)
    hidden = jnp.tanh((1 + scale) * (local @ net.net.kernels[0] + net.net.biases[0]) + shift)
    np.testing.assert_allclose(out, hidden @ net.net.kernels[1] + net.net.biases[1], atol=1e-6)
