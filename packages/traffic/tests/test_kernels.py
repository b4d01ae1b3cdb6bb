"""The kernels of networks, interpreted on a CPU, against the same layers one after another."""

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factorax_traffic import kernels as fused_layers
from factorax_traffic.kernels import can_fuse, fused

ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu}


def layers(x, kernels, biases, activation):
    for kernel, bias in zip(kernels[:-1], biases[:-1], strict=True):
        x = ACTIVATIONS[activation](x @ kernel + bias)
    return x @ kernels[-1] + biases[-1]


def parameters(sizes, nets):
    draw = np.random.default_rng(0).normal
    kernels = [(draw(size=(nets, a, b)) / a**0.5).astype(np.float32) for a, b in pairwise(sizes)]
    return kernels, [draw(size=(nets, 1, b)).astype(np.float32) for b in sizes[1:]]


def with_gradients(function, x, parameters, weights):
    """The outputs for all parameters, and the gradients of their sum with these weights."""

    @jax.jit
    def both(kernels, biases):
        out, back = jax.vjp(lambda kernels, biases: function(x, kernels, biases), kernels, biases)
        return out, back(weights)

    return both(*parameters)


@pytest.mark.parametrize(("sizes", "activation"), [((5, 16, 16, 1), "tanh"), ((20, 16, 3), "relu")])
def test_outputs_and_gradients_are_those_of_the_layers(sizes, activation, monkeypatch):
    monkeypatch.setattr(fused_layers, "ROWS", 16)
    monkeypatch.setattr(fused_layers, "GRADIENT_ROWS", 16)
    monkeypatch.setattr(fused_layers, "PROGRAMS", 2)  # so that each adds up several blocks, the last one not full
    draw = np.random.default_rng(1).normal
    x, weights = (draw(size=size).astype(np.float32) for size in ((70, sizes[0]), (2, 70, sizes[-1])))
    ours, theirs = (
        with_gradients(partial(function, activation=activation), x, parameters(sizes, 2), weights)
        for function in (fused, layers)
    )
    np.testing.assert_allclose(ours[0], theirs[0], atol=2e-6)
    for a, b in zip(jax.tree.leaves(ours[1]), jax.tree.leaves(theirs[1]), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)


def test_states_of_several_seeds(monkeypatch):
    monkeypatch.setattr(fused_layers, "ROWS", 16)
    kernels, biases = jax.tree.map(lambda p: np.stack([p, 2 * p]), parameters((5, 16, 1), 2))
    x = np.random.default_rng(1).normal(size=(2, 20, 5)).astype(np.float32)
    ours, theirs = (
        jax.jit(jax.vmap(partial(function, activation="tanh")))(x, kernels, biases) for function in (fused, layers)
    )
    np.testing.assert_allclose(ours, theirs, atol=2e-6)


def test_kernels_are_for_many_rows_on_a_gpu(monkeypatch):
    kernels, _ = jax.tree.map(lambda p: p[0], parameters((5, 16, 1), 1))
    assert not can_fuse(2**20, kernels, "tanh")  # on a CPU
    monkeypatch.setattr(fused_layers, "_has_kernels", lambda: True)
    monkeypatch.setattr(fused_layers, "SMALLEST", 20)
    assert can_fuse(20, kernels, "tanh")
    assert not can_fuse(19, kernels, "tanh")
    assert not can_fuse(20, kernels, "gelu")
    assert not can_fuse(20, [np.ones((5, 24)), np.ones((24, 1))], "tanh")
    with jax.default_matmul_precision("highest"):
        assert not can_fuse(20, kernels, "tanh")


def test_the_architecture_gives_the_same_network(monkeypatch):
    """With kernels interpreted, the outputs of a policy are those of `mlp` with the same parameters."""
    from factorax.ppo import Config, Learner
    from factorax.problems import queues

    config = {"hidden": (16,), "n_envs": 4, "n_steps": 4, "batch_size": 16}
    plain, kernels = (Learner.of(queues(2, 2), config=Config(**config, architecture=name)) for name in ("mlp", "fused"))
    state = kernels.init(0)
    obs = np.random.default_rng(0).uniform(size=(8, kernels.spec.n_inputs)).astype(np.float32)
    monkeypatch.setattr(fused_layers, "SMALLEST", 1)
    monkeypatch.setattr(fused_layers, "_has_kernels", lambda: True)
    monkeypatch.setattr(fused_layers, "ROWS", 16)
    out = jax.jit(lambda: state.agent.policy(obs, kernels.rule.local(obs))[0])()
    want = plain.init(0).agent.policy(obs, plain.rule.local(obs))[0]
    np.testing.assert_allclose(out, want, atol=2e-6)
