"""Policies and critics made for choices with their settings."""

import dataclasses
from types import SimpleNamespace

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factorax import InfluenceNetwork
from factorax.networks import (
    ARCHITECTURES,
    POLICIES,
    Gru,
    Mlp,
    SharedPolicy,
    make_action_values,
    make_critic,
    make_policy,
    policy_arrays,
    uses_local,
    worker_policy,
)
from factorax.networks.arrangements import Independent, Joint, PerChoice, Shared
from factorax.networks.attention import AttentionNetwork
from factorax.networks.policies import Agent, TrunkHead
from factorax.networks.recurrent import Recurrent
from factorax.problems import contextual_bandit, queues
from factorax.spec import Spec

QUEUES = Spec.of(queues(2))
BANDIT = Spec.of_spaces(gym.spaces.Box(-1, 1, (3,)), gym.spaces.MultiDiscrete([2] * 3), InfluenceNetwork.identity(3))
KEY = jax.random.key(0)


def settings(policy="auto", architecture="mlp", hidden=(8,), activation="tanh"):
    policy = POLICIES.read(policy) if isinstance(policy, str) else policy
    return SimpleNamespace(
        policy=policy, architecture=ARCHITECTURES.read(architecture), hidden=hidden, activation=activation
    )


def made(spec, c, **options):
    """A policy and a critic with one value per factor; their shapes alone are computed."""

    def make():
        policy = make_policy(spec, c, KEY)
        return Agent(
            policy, make_critic(spec, c, policy, KEY, **{"values": spec.n_factors, "meaning": "values"} | options)
        )

    return eqx.filter_eval_shape(make)


@pytest.mark.parametrize(
    ("spec", "policy", "architecture", "kind"),
    [
        (QUEUES, "auto", "mlp", Shared),
        (BANDIT, "auto", "mlp", Joint),
        (BANDIT, "auto", "attention", AttentionNetwork),
        (QUEUES, "joint", "mlp", Joint),
        (QUEUES, "independent", "mlp", Independent),
        (QUEUES, "shared", "lstm", Recurrent),
        (QUEUES, "auto", "choices", PerChoice),
    ],
)
def test_choices_name_networks(spec, policy, architecture, kind):
    c = settings(policy, architecture)
    agent = made(spec, c)
    assert type(agent.policy.net) is kind
    assert uses_local(spec, c) == (spec.local is not None and policy != "joint")


def test_components_that_observe_the_same_have_embeddings():
    """Otherwise they would act alike."""
    sizes = [
        made(spec, settings(policy)).policy.net.identity.shape[1]
        for spec in (BANDIT, QUEUES)
        for policy in ("shared", "shared,identity=0", SharedPolicy(3))
    ]
    assert sizes == [8, 0, 3, 0, 0, 3]


@pytest.mark.parametrize("architecture", ["attention", "choices"])
@pytest.mark.parametrize("policy", ["joint", "independent"])
def test_networks_that_do_not_exist(policy, architecture):
    with pytest.raises(ValueError, match=f"architecture: got '{architecture}' with policy='{policy}', want"):
        make_policy(QUEUES, settings(policy, architecture), KEY)


def test_a_recurrent_network_has_a_hidden_layer():
    with pytest.raises(ValueError, match=r"hidden: got \(\) with architecture='gru'"):
        make_policy(QUEUES, settings("joint", "gru", hidden=()), KEY)


@pytest.mark.parametrize(
    ("policy", "architecture", "options", "kind"),
    [
        ("shared", "mlp", {}, Joint),
        ("shared", "mlp", {"per_factor": True}, Shared),
        ("shared", "attention", {"per_factor": True}, AttentionNetwork),
        ("shared", "mlp", {"trunk": "shared"}, TrunkHead),
        ("shared", "gru", {}, TrunkHead),
        ("shared", "gru", {"trunk": "separate"}, Recurrent),
    ],
)
def test_critics_are_arranged_as_policies_where_values_are_of_factors(policy, architecture, options, kind):
    agent = made(QUEUES, settings(policy, architecture), **options)
    assert type(agent.critic.net) is kind
    assert agent.sequence_length == (16 if architecture == "gru" else 0)


class Features(eqx.Module):
    """A module with the features on which a critic may be built."""

    weight: jax.Array

    def features(self, obs, local):
        return jnp.tanh(obs @ self.weight)

    def __call__(self, obs, local):
        return jnp.broadcast_to(self.features(obs, local)[:2], (3, 2))


class Remembers(eqx.Module):
    memory: int = eqx.field(static=True, default=4)
    sequence_length: int = eqx.field(static=True, default=5)

    def __call__(self, obs, local, memory):
        return jnp.zeros((3, 2)), memory


def test_a_critic_on_the_features_of_a_users_module():
    agent = made(BANDIT, settings(Features(jnp.ones((3, 5)))), trunk="shared")
    assert agent.critic.net.kernel.shape == (5, 3)
    assert not isinstance(made(BANDIT, settings(Features(jnp.ones((3, 5))))).critic.net, TrunkHead)
    with pytest.raises(ValueError, match=r"trunk: got 'shared', but Remembers has no method features\(obs, local\)"):
        made(BANDIT, settings(Remembers()), trunk="shared")


def test_a_users_recurrent_module_says_how_long_its_sequences_are():
    agent = made(BANDIT, settings(Remembers(), "gru"))
    assert agent.sequence_length == 5
    assert (agent.policy.memory, agent.critic.memory) == (4, 8)


def test_the_critic_of_actions_has_as_many_outputs_as_asked_for():
    net = eqx.filter_eval_shape(lambda: make_action_values(QUEUES, settings(), KEY, outputs=2))
    assert net.net.kernels[-1].shape[1] == 3  # and a common part


@pytest.mark.parametrize("architecture", ["mlp", "gru"])
@pytest.mark.parametrize("policy", ["joint", "shared"])
def test_workers_evaluate_the_same_policy(policy, architecture):
    """With normalised observations, in NumPy and in JAX."""
    spec, c = Spec.of(contextual_bandit(3)), settings(policy, architecture)
    network = jax.jit(lambda: make_policy(spec, c, KEY))()
    moments = SimpleNamespace(mean=np.float32([0, 1, 2]), variance=np.float32([1, 4, 0.25]))
    worker = dataclasses.replace(worker_policy(spec, c, network), local=spec.local if uses_local(spec, c) else None)
    outputs, obs = [], np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    noise = np.zeros((1, 4, 3, spec.components.width), np.float32)
    worker.playing(policy_arrays(network, moments), 0, noise, outputs)(obs)
    normalised = (obs - moments.mean) / np.sqrt(moments.variance)
    local = spec.local_of(normalised, np) if uses_local(spec, c) else None
    memory = np.zeros((4, network.memory), np.float32) if network.memory else None
    np.testing.assert_allclose(outputs[0], network.at(normalised, local, memory)[0], atol=1e-5)


def test_settings_of_choices():
    assert str(ARCHITECTURES.read("gru,sequence_length=8")) == str(Gru(8)) == "gru,sequence_length=8"
    assert str(Mlp(init=jax.nn.initializers.glorot_uniform())) == "mlp,init=custom"
    with pytest.raises(
        ValueError, match=r"architecture: got the setting layer_norm for gru, .*; mlp, conv, .* have layer_norm"
    ):
        ARCHITECTURES.read("gru,layer_norm=true")
    with pytest.raises(ValueError, match=r"init: got 'hee', want .*'orthogonal', .*; did you mean 'he'"):
        ARCHITECTURES.read("mlp,init=hee")
    with pytest.raises(ValueError, match="init: got 'custom', which stands for a function"):
        make_policy(BANDIT, settings(architecture="mlp,init=custom"), KEY)
