"""The example in one file, `examples/factored_ppo.py`, makes the same update as the library."""

import importlib.util
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factorax import InfluenceNetwork
from factorax.networks import make_policy
from factorax.ppo import Agent, Config, Rollout, Update
from factorax.spec import Spec
from ppo.helping import random_network

EXAMPLE = Path(__file__).parents[2] / "examples" / "factored_ppo.py"
N, T, B, HIDDEN = 3, 8, 4, 5


@pytest.fixture
def example(monkeypatch):
    """The example with three rooms and short nights."""
    spec = importlib.util.spec_from_file_location("example_of_factored_ppo", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, value in {"n": N, "horizon": 5, "weights": np.array([1.0, 0.5, 2.0, 3.0])}.items():
        monkeypatch.setattr(module.Rooms, name, value)
    return module


def drawn_rollout(example, agent):
    """Played by the example, with some terminations and truncations."""
    rng = np.random.default_rng(0)
    rollout = example.Environments(B, seed=0).collect(agent, rng.normal(size=(T, B, N)))
    rollout = rollout._replace(terminated=rollout.terminated | (rng.random((T, B)) < 0.2))
    assert rollout.terminated.any()
    assert (rollout.truncated & ~rollout.terminated).any()
    return jax.tree.map(jnp.asarray, rollout)


def as_agent(like, agent):
    """The parameters of the example as an agent of the library."""

    def where(a):
        policy, critic = a.policy.net.net, a.critic.net.net
        return policy.kernels, policy.biases, critic.kernels, critic.biases, a.policy.spread.log_std

    layers = [list(map(jnp.asarray, part)) for name in ("policy", "critic") for part in zip(*agent[name], strict=True)]
    return eqx.tree_at(where, like, (*layers, agent["log_std"]))


@pytest.mark.parametrize("epochs", [1, 5])
@pytest.mark.parametrize("method", ["factored", "ppo"])
def test_the_example_and_the_library_make_the_same_update(example, method, epochs):
    """From the same parameters and rollout, with the whole rollout as minibatch, whose order does not matter."""
    network = example.influence(N)
    config = Config(
        n_envs=B, n_steps=T, batch_size=T * B, n_epochs=epochs, gamma=0.95, gae_lambda=0.9, learning_rate=1e-2,
        policy="shared,identity=0", critic="target", hidden=(HIDDEN, HIDDEN), distribution="clip", method=method,
    )  # fmt: skip
    settings = example.Settings(epochs=epochs, minibatch=T * B, learning_rate=1e-2, hidden=HIDDEN)
    joint = method == "ppo"
    net = InfluenceNetwork.complete(1, N + 1) if joint else network
    init, update = example.make_update(example.Rooms.weights, net, joint=joint, s=settings)
    spaces = example.Rooms().observation_space, example.Rooms().action_space
    local = lambda obs: obs.reshape(*obs.shape[:-1], N, 2)  # noqa: E731
    rule = Update(Spec.of_spaces(*spaces, network, weights=example.Rooms.weights, local=local), config)

    agent = example.init_agent(jax.random.key(0), N, N + 1, settings)
    agent["critic"] = example.init_mlp(jax.random.key(1), (2 * N, HIDDEN, HIDDEN, N + 1), 1.0)
    rollout = drawn_rollout(example, agent)
    want, _ = update(agent, init(agent), rollout, jax.random.key(2))

    @jax.jit
    def learn(agent, rollout):
        row = lambda obs: obs.reshape(T, B, 2 * N)  # noqa: E731
        fields = rollout._asdict() | {"obs": row(rollout.obs), "next_obs": row(rollout.next_obs), "local": rollout.obs}
        state = rule.method.optimiser(config.hyper).init(eqx.filter(agent, eqx.is_inexact_array))
        return rule.learn(agent, state, Rollout(**fields), key=jax.random.key(3))[0]

    def make():

        policy = make_policy(rule.spec, rule.config, jax.random.key(0))
        return Agent(policy, rule.method.critic(rule, policy, jax.random.key(0)))

    before = as_agent(random_network(make), agent)
    after = learn(before, rollout)
    for a, b, c in zip(*map(jax.tree.leaves, (after, as_agent(before, want), before)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
        assert not a.size or np.abs(b - c).max() > 1e-3
