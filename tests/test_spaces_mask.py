"""Choices that are not valid: which have no probability, and where masks come from."""

import warnings
from typing import ClassVar

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from small_settings import SMALL

import factorax as fx
from factorax.ppo import Config, Learner
from factorax.rollouts.environments import Environments
from factorax.spaces import ActionMask, ActionSpace, sample_valid
from factorax.structure import StructureWarning


class Doors(gym.Env):
    """Two rows of doors, of which some are locked; trying one is an error."""

    tried: ClassVar[list[bool]] = []
    """Whether the doors were open, of every step of every environment."""
    action_space = spaces.MultiDiscrete([2, 3])
    observation_space = spaces.Dict(
        observation=spaces.Box(-1.0, 1.0, (2,), np.float32), action_mask=spaces.Box(0, 1, (5,), np.int8)
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observed(), {}

    def observed(self):
        self.open = self.np_random.integers(0, 2, 5).astype(np.int8)
        self.open[[self.np_random.integers(2), 2 + self.np_random.integers(3)]] = 1
        return {"observation": self.np_random.uniform(-1, 1, 2).astype(np.float32), "action_mask": self.open}

    def step(self, action):
        self.tried.append(bool(self.open[action[0]] and self.open[2 + action[1]]))
        assert self.tried[-1], "locked"
        self.time += 1
        return self.observed(), 1.0, False, self.time == 4, {}


class InInfo(Doors):
    """The same, with the mask in info."""

    observation_space = Doors.observation_space["observation"]

    def reset(self, *, seed=None, options=None):
        obs, _ = super().reset(seed=seed)
        return obs["observation"], {"action_mask": obs["action_mask"]}

    def step(self, action):
        obs, *rest, _ = super().step(action)
        return obs["observation"], *rest, {"action_mask": obs["action_mask"]}


@pytest.mark.slow
def test_masked_choices_have_no_probability_and_the_others_share_it():
    space = ActionSpace.of(spaces.Tuple([spaces.MultiDiscrete([2, 3]), spaces.Box(-1.0, 1.0, (1,))]))
    mask = ActionMask.of(space, 1, 6)
    rows = jnp.float32([[9, 1, 0, 0, 1, 1]])
    parameters = jax.random.normal(jax.random.key(0), (1, 3, 3))
    masked = mask.applied(parameters, rows, jnp)
    np.testing.assert_array_equal(masked, mask.applied(np.asarray(parameters), np.asarray(rows), np))
    probability = jax.nn.softmax(masked[0, 1])
    want = np.exp(parameters[0, 1, 1:]) / np.exp(parameters[0, 1, 1:]).sum()
    np.testing.assert_allclose(probability, [0, *want], atol=1e-6)
    np.testing.assert_array_equal(masked[0, 2], parameters[0, 2])  # of the Box
    spread = space.spread(0.0)
    entropy = space.entropy(masked, spread)
    np.testing.assert_allclose(entropy[0, :2], [0, -(want * np.log(want)).sum()], atol=1e-5)
    gradient = jax.grad(lambda p: space.entropy(mask.applied(p, rows, jnp), spread).sum())(parameters)
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(space.kl((masked, spread), (masked, spread)), 0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{}, {"normalize_obs": True, "policy": "shared,identity=2"}, {"architecture": "gru,sequence_length=3"}],
    ids=str,
)
def test_masked_actions_are_never_sampled_in_training(settings):
    for make in (Doors, fx.wrap(InInfo, fx.InfluenceNetwork.complete(2, 1), observe=["action_mask"])):
        Doors.tried.clear()
        fx.FactoredPPO(make, **SMALL | settings).learn(48, progress_bar=False).close()
        assert len(Doors.tried) >= 2 * SMALL["n_envs"] * SMALL["n_steps"]
        assert all(Doors.tried)


def test_ignored_action_mask_in_info_warns():
    model = fx.FactoredPPO(lambda: InInfo(), **SMALL)
    said = pytest.warns(StructureWarning, match=r"info\['action_mask'\]: is ignored.*observe=\['action_mask'\]")
    with said, pytest.raises(AssertionError, match="locked"):
        model.learn(24, progress_bar=False)


def test_ignored_action_mask_in_info_of_a_vector_environment_warns():
    settings = {name: value for name, value in SMALL.items() if name != "n_envs"}
    one = fx.wrap(InInfo, fx.InfluenceNetwork.complete(2, 1), observe=["action_mask"])
    for make, warns in ((InInfo, True), (Doors, False), (one, False)):
        learner = Learner.of(lambda make=make: SyncVectorEnv([make] * 2), config=Config(**settings, n_envs=4))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            hosts = Environments(learner.spec.problem, 4, learner.spec.components, 1)
            hosts.init(0)
            hosts.begin_batch(0)
        messages = [str(each.message) for each in said if "info['action_mask']: is ignored" in str(each.message)]
        assert len(messages) == warns
        assert all("wrap single environments with fx.wrap" in message for message in messages)
        hosts.close()


def test_action_mask_of_the_wrong_length_is_refused():
    space = ActionSpace.of(spaces.MultiDiscrete([2, 3]))
    with pytest.raises(ValueError, match="action_mask: got 4 numbers, want 5, one per choice"):
        ActionMask.of(space, 0, 4)


def test_sample_valid_respects_the_mask():
    space = spaces.MultiDiscrete([2, 3], seed=0)
    mask = {"action_mask": [0, 1, 1, 0, 1]}
    assert {tuple(sample_valid(space, None, mask)) for _ in range(30)} == {(1, 0), (1, 2)}
    assert sample_valid(spaces.Discrete(3, seed=0), {"action_mask": [0, 1, 0]}) == 1
