"""Environments that do something else after a reset with the same seed: a warning says so."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from rollouts.environments import Drift, Forgetful
from rollouts.vectors import Own, sync

import factorax as fx
from factorax.rollouts import SeedWarning


class Unseeded(Drift):
    """Takes the seed, and does not use it."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None)


FIRST, LATER = "already in the first observation", "after a few steps"


@pytest.mark.parametrize(
    ("make", "name", "where"),
    [
        (Unseeded, "Unseeded", FIRST),
        (Forgetful, "Forgetful", LATER),
        (partial(sync, make=Unseeded), "SyncVectorEnv", FIRST),
        (partial(Own, make=Forgetful), "Own", LATER),
    ],
)
def test_a_check_says_it_once(make, name, where):
    message = rf"{name}: two episodes with reset\(seed=0\) and the same actions differ, {where}: its reset ignores"
    with pytest.warns(SeedWarning, match=message) as warned:
        fx.check_problem(make, steps=5)
    assert len(warned) == 1
    assert "start new episodes. Call super().reset(seed=seed)" in str(warned[0].message)


def test_others_are_not_warned_of():
    class Counting(gym.Env):
        """An observation that is no number with a NaN in it, and episodes of one step."""

        observation_space, action_space = spaces.Discrete(3), spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            return int(action), 1.0, True, False, {}

    for make in (Drift, sync, Own, Counting, partial(gym.make, "CartPole-v1")):
        fx.check_problem(make, steps=5)


@pytest.mark.slow
def test_training_says_it_where_it_repeats_episodes_anyway():
    """It does so for a sparse network and a policy that reads everything; no further environment is made."""
    made = []

    def make():
        made.append(Unseeded())
        return made[-1]

    model = fx.FactoredPPO(make, n_envs=2, n_steps=4, batch_size=8, hidden=(4,), n_epochs=1)
    with pytest.warns(SeedWarning, match="Unseeded"):
        model.learn(8, progress_bar=False)
    assert len(made) == 4  # for the spec, for that check, and two to train in
    assert np.isfinite(model.history[-1]["train/loss"])
