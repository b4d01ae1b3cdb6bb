"""Networks of the user's own."""

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_settings import SMALL

from factorax import FactoredPPO
from factorax.networks.arrangements import Joint
from factorax.ppo import Config, Learner
from factorax.problems import contextual_bandit, queues
from factorax.spec import Spec

BANDIT = contextual_bandit(3)


class Own(eqx.Module):
    """Any module: it has a function among its fields, and an array that is not learnt."""

    layers: list
    activation: object
    order: jax.Array

    def __init__(self, spec, key, width=None):
        c = len(spec.components)
        one, two = jax.random.split(key)
        self.layers = [
            eqx.nn.Linear(spec.n_inputs, 8, key=one),
            eqx.nn.Linear(8, c * (width or spec.components.width), key=two),
        ]
        self.activation, self.order = jax.nn.relu, jnp.arange(c)

    def __call__(self, obs, local):
        x = self.layers[1](self.activation(self.layers[0](obs)))
        return x.reshape(len(self.order), -1)[self.order]


class OwnCritic(eqx.Module):
    linear: eqx.nn.Linear

    def __call__(self, obs, local):
        return self.linear(obs)


def same_as_ours(net):
    """A module that computes what a joint network of ours does."""

    class Same(eqx.Module):
        net: object

        def __call__(self, obs, local):
            return self.net(obs, local)

    return Same(net)


@pytest.mark.slow
def test_a_module_equal_to_ours_learns_the_same():
    ours = Learner.of(BANDIT, config=Config(**SMALL, policy="joint", critic="none"))
    state = ours.init()
    net = state.agent.policy.net
    assert isinstance(net, Joint)
    theirs = Learner.of(BANDIT, config=Config(**SMALL, policy=same_as_ours(net), critic="none"))
    first, _ = jax.jit(ours.update)(state)
    second, _ = jax.jit(theirs.update)(theirs.init())
    for a, b in zip(jax.tree.leaves(first.agent), jax.tree.leaves(second.agent), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    assert not np.allclose(jax.tree.leaves(first.agent)[0], jax.tree.leaves(state.agent)[0], atol=1e-6)


def _weight_of(learner):
    """The first weights of the policy of a learner, as a function of the seed."""
    return jax.jit(lambda seed: learner.init(seed).agent.policy.net.module.layers[0].weight)


def test_a_function_makes_a_module_for_every_seed_and_a_module_is_one_for_all():
    learner = Learner.of(BANDIT, config=Config(**SMALL, policy=Own))
    a, b = map(_weight_of(learner), (0, 1))
    assert not np.array_equal(a, b)
    module = Own(learner.spec, jax.random.key(7))
    same = Learner.of(BANDIT, config=Config(**SMALL, policy=module))
    a, b = map(_weight_of(same), (0, 1))
    np.testing.assert_array_equal(a, b)


def test_it_trains_and_comes_back_from_a_file(tmp_path):
    critic = lambda spec, key: OwnCritic(eqx.nn.Linear(spec.n_inputs, spec.n_targets, key=key))  # noqa: E731
    model = FactoredPPO("contextual-bandit:3", policy=Own, critic=critic, **SMALL)
    before = model.state.agent.policy.net.module
    model.learn(48, progress_bar=False)
    after = model.state.agent.policy.net.module
    assert not np.array_equal(before.layers[0].weight, after.layers[0].weight)
    np.testing.assert_array_equal(after.order, [0, 1, 2])
    assert after.activation is jax.nn.relu
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"policy: .* was trained with custom policy.*test_custom.Own.*policy=…"):
        FactoredPPO.load(tmp_path / "model")
    with pytest.raises(ValueError, match=r"critic: .* was trained with custom critic"):
        FactoredPPO.load(tmp_path / "model", policy=Own)
    again = FactoredPPO.load(tmp_path / "model", policy=Own, critic=critic)
    obs = np.float32([0.1, -0.2, 0.3])
    np.testing.assert_array_equal(again.predict(obs, deterministic=True)[0], model.predict(obs, deterministic=True)[0])
    with pytest.raises(ValueError, match="a checkpoint of something else"):
        FactoredPPO.load(tmp_path / "model", policy=lambda spec, key: same_as_ours(Own(spec, key)), critic=critic)


def test_local_observations_are_handed_over():
    seen = []

    class Looks(eqx.Module):
        scale: jax.Array

        def __call__(self, obs, local):
            seen.append((obs.shape, local.shape))
            return local[:, :2] * self.scale

    problem = queues(3)
    learner = Learner.of(problem, config=Config(**SMALL, policy=Looks(jnp.ones(()))))
    eqx.filter_eval_shape(learner.init)
    spec = Spec.of(problem)
    assert set(seen) == {((spec.n_inputs,), spec.local_of(np.zeros(spec.n_inputs), np).shape)}


class Camera(gym.Env):
    observation_space = gym.spaces.Dict(image=gym.spaces.Box(0, 255, (6, 6, 1), np.uint8), mode=gym.spaces.Discrete(3))
    action_space = gym.spaces.Discrete(2)


def test_structure_is_handed_over():
    seen = []

    class Looks(eqx.Module):
        bias: jax.Array

        def __call__(self, obs, local):
            seen.append({name: x.shape for name, x in obs.items()} | {"local": local})
            return self.bias[None]

    FactoredPPO(Camera, policy=Looks(jnp.zeros(2)), critic="none", **SMALL)
    assert seen[0] == {"image": (6, 6, 1), "mode": (3,), "local": None}


class Counter(eqx.Module):
    """Remembers how many steps the episode has had, and adds them to what it puts out."""

    bias: jax.Array
    memory: int = eqx.field(static=True, default=1)
    sequence_length: int = eqx.field(static=True, default=3)

    def __call__(self, obs, local, memory):
        return self.bias + memory[0], memory + 1


@pytest.mark.slow
def test_a_module_may_remember():
    learner = Learner.of(queues(2), config=Config(**SMALL, policy=lambda spec, key: Counter(jnp.zeros((6, 2)))))
    state = learner.init()
    _, _, t = learner.collector.collect(learner.behaviour(state), state.environments, state.key)
    np.testing.assert_array_equal(t.memory[..., 0], np.broadcast_to(np.arange(6.0)[:, None], (6, 4)))
    net = state.agent.policy.net
    starts = np.zeros((6, 4), bool)
    starts[2, 1] = True
    out, _, after = net.unroll(t.obs, learner.rule.local(t.obs), t.memory[0], starts)
    np.testing.assert_array_equal(after[:, 1, 0], [1, 2, 1, 2, 3, 4])
    np.testing.assert_array_equal(out[:, 0, 0, 0], np.arange(6))
    new, metrics = jax.jit(learner.update)(state)
    assert np.isfinite(metrics["train/loss"])
    assert not np.array_equal(new.agent.policy.net.module.bias, state.agent.policy.net.module.bias)


@pytest.mark.parametrize(
    ("policy", "error", "message"),
    [
        (
            lambda spec, key: Own(spec, key, width=5),
            ValueError,
            r"policy: Own returns shape \(3, 5\) of float32 for one observation, want floats of shape \(3, 1\): for "
            r"each of 3 action components its 1 distribution parameters",
        ),
        (lambda spec, key: lambda obs, local: obs, TypeError, r"policy: got .*, want an equinox.Module with __call__"),
        (lambda spec: None, TypeError, r"policy: .* cannot be called with a Spec and a key"),
    ],
    ids=["shape", "no module", "signature"],
)
def test_what_does_not_fit_is_said(policy, error, message):
    with pytest.raises(error, match=message):
        FactoredPPO(BANDIT, policy=policy, **SMALL)


def test_a_critic_has_a_value_for_each_target():
    with pytest.raises(ValueError, match=r"critic: OwnCritic returns shape \(2,\) .* want floats of shape \(3,\)"):
        FactoredPPO(BANDIT, critic=lambda spec, key: OwnCritic(eqx.nn.Linear(3, 2, key=key)), **SMALL)


def test_an_error_inside_a_module_says_what_it_was_called_with():
    class Fails(eqx.Module):
        def __call__(self, obs, local):
            return obs @ jnp.zeros((7, 3))

    with pytest.raises(TypeError) as error:
        FactoredPPO(BANDIT, policy=Fails(), **SMALL)
    assert "policy: in Fails, called with one observation" in "".join(error.value.__notes__)
