"""Actions in units of their bounds: the warning where there are none, and what training makes of those there are."""

import dataclasses
import warnings
from functools import partial

import equinox as eqx
import gymnasium as gym
import jax
import numpy as np
import pytest
from gymnasium.wrappers import TransformAction

import factorax as fx
from factorax.ppo import ActionScaleWarning, Config, FactoredPPO
from factorax.problems import chain

SMALL = {"n_envs": 2, "n_steps": 16, "batch_size": 32, "hidden": (8,), "n_epochs": 2, "check_network": False}
HALF = gym.spaces.Box(np.float32([-1, 0, -np.inf]), np.float32([1, np.inf, np.inf]))


def on_box(space):
    """A chain with another action space."""
    return dataclasses.replace(chain(3, horizon=8), action_space=space)


def leaves(ppo):
    return jax.tree.leaves(eqx.filter(ppo.state.agent, eqx.is_array))


@pytest.mark.slow
def test_components_without_bounds_are_named_once():
    with pytest.warns(ActionScaleWarning) as caught:
        FactoredPPO(on_box(HALF), distribution="scale,initial_log_std=-1.0", **SMALL).learn(32, progress_bar=False)
    (warning,) = caught
    assert warning.filename == __file__
    for fact in ("'a2', 'a3'", "0.368", "TransformAction", 'distribution="clip"'):
        assert fact in str(warning.message)


def test_components_of_factors_are_named_by_number():
    net = chain(3).network.factor(fx.Factorisation([[0, 1], [2]], 3))
    with pytest.warns(ActionScaleWarning, match="'component 1', 'component 2'"):
        FactoredPPO(on_box(HALF), net, **SMALL)


@pytest.mark.parametrize(
    ("problem", "settings"),
    [
        (on_box(HALF), {"distribution": "clip"}),
        (on_box(gym.spaces.Box(0.0, 365.0, (3,))), {}),
        (partial(gym.make, "Pendulum-v1"), {}),
        (partial(gym.make, "CartPole-v1"), {}),
        (partial(gym.make, "factorax/SearchBandit-v0", n=3), {}),  # it says that raw units are meant
        (fx.wrap(partial(gym.make, "factorax/SearchBandit-v0", n=3)), {}),
    ],
)
def test_no_warning_where_there_is_nothing_to_say(problem, settings):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FactoredPPO(problem, **SMALL, **settings).close()


@pytest.mark.slow
def test_bounds_given_as_the_warning_says():
    actions = []

    class Free(gym.Env):
        observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        action_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)

        def reset(self, *, seed=None, options=None):
            return np.zeros(1, np.float32), {}

        def step(self, action):
            actions.append(action)
            return np.zeros(1, np.float32), float(action.sum()), True, False, {}

    one_target = fx.InfluenceNetwork.complete(2, 1)
    bounds = gym.spaces.Box(0.0, 50.0, (2,))
    make = fx.wrap(lambda: TransformAction(Free(), lambda action: action, bounds), one_target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ppo = FactoredPPO(make, distribution="scale,initial_log_std=1.0", **SMALL).learn(32, progress_bar=False)
    assert ppo.spec.components.kinds == ("scaled", "scaled")
    assert np.min(actions) == 0
    assert np.max(actions) == 50
    ppo.close()
    with pytest.warns(ActionScaleWarning):
        FactoredPPO(fx.wrap(Free, one_target), **SMALL).close()


class Push(gym.Env):
    """Two actions from −1 to 1 that move what is seen."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = self.np_random.normal(size=2).astype(np.float32), 0
        return self.place.copy(), {}

    def step(self, action):
        self.place, self.time = self.place + action, self.time + 1
        return self.place.copy(), -float(np.square(self.place).sum()), False, self.time == 8, {}


@pytest.mark.slow
@pytest.mark.parametrize("problem", [on_box(gym.spaces.Box(-1.0, 1.0, (3,), np.float32)), Push], ids=["JAX", "host"])
def test_training_within_plus_and_minus_one_is_the_same_scaled_and_clipped(problem):
    """Bit for bit, through several updates and an evaluation."""
    scaled, clipped = (
        FactoredPPO(problem, distribution=f"{name},initial_log_std=0", **SMALL).learn(128, progress_bar=False)
        for name in ("scale", "clip")
    )
    for a, b in zip(leaves(scaled), leaves(clipped), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(scaled.evaluate(3)["episodes"], clipped.evaluate(3)["episodes"])
    for ppo in (scaled, clipped):
        ppo.close()


def in_units(width):
    """The chain with actions from 0 to a width, where its own go from −2 to 2."""
    problem = chain(3, horizon=8)
    return dataclasses.replace(
        problem,
        step=lambda key, state, action: problem.step(key, state, action * (4 / width) - 2),
        action_space=gym.spaces.Box(0.0, width, (3,), np.float32),
    )


@pytest.mark.slow
def test_what_is_learnt_does_not_depend_on_the_units_of_actions():
    """The default; in units that are powers of two apart there is not even a difference of rounding."""
    models = [FactoredPPO(in_units(width), **SMALL).learn(128, progress_bar=False) for width in (4.0, 4096.0)]
    for a, b in zip(*map(leaves, models), strict=True):
        np.testing.assert_array_equal(a, b)
    assert str(Config().distribution) == "scale"


def test_the_initial_policy_covers_the_bounds():
    """Of its actions in units of the Box, P(|ε| > 2) = 0.0455 lie at the bounds; 2,000 draws within five standard
    errors. Their middle half spans 0.337 of the range."""
    ppo = FactoredPPO(on_box(gym.spaces.Box(0.0, 365.0, (3,), np.float32)), **SMALL)
    obs = np.zeros((2000, 4), np.float32)
    actions = eqx.filter_jit(ppo.learner.act)(ppo.state, jax.random.key(0), obs)
    drawn = ppo.spec.components.within(np.asarray(actions), np)
    at_bounds = ((drawn == 0) | (drawn == 365)).mean(axis=0)
    assert np.abs(at_bounds - 0.0455).max() < 5 * np.sqrt(0.0455 * 0.9545 / 2000)
    quartiles = np.quantile(drawn, [0.25, 0.75], axis=0) / 365
    np.testing.assert_allclose(quartiles[1] - quartiles[0], 0.337, atol=0.05)
