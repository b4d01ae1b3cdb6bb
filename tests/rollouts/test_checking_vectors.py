"""`check_problem` finds what is wrong with a vector environment."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from rollouts.environments import Counter, Drift
from rollouts.vectors import N, Own, cartpole, sync

import factorax as fx
from factorax.rollouts import ProblemError


@pytest.mark.parametrize("mode", AutoresetMode)
def test_correct_vector_environments_pass(mode):
    fx.check_problem(partial(sync, mode, masks=True), steps=60)
    fx.check_problem(partial(Own, mode), steps=60)
    fx.check_problem(partial(cartpole, mode), steps=60)


def test_faults_are_named():
    class Wrong(Counter):
        def step(self, action):
            obs, reward, *rest = super().step(action)
            return obs, reward + 1.0, *rest

    cases = {
        "reward: got 4 for environment 0 in step 0, want weights @ vector_reward = 3;": partial(sync, make=Wrong),
        "targets: entry 1 of environment 0 is not finite in step 1": partial(sync, make=Counter, spoil=2),
        "rewards: got shape .3,., want .3, 2.*, in step 0": partial(sync, make=Counter, info={"vector_reward": None}),
        "observations: got shape .*, in the reset with seed 0": _Reshaped,
    }
    for message, make in cases.items():
        with pytest.raises(ProblemError, match=message):
            fx.check_problem(make, steps=4)
    with pytest.raises(
        ProblemError, match=r"weights: got .*, want \(2,\), one λ per target, the columns of the network"
    ):
        fx.check_problem(sync, np.eye(2))


class _Reshaped(Own):
    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed, options=options)
        return obs.T, info


def test_the_environments_are_closed():
    made = []

    def make():
        made.append(gym.vector.SyncVectorEnv([Drift] * N))
        return made[-1]

    fx.check_problem(make, steps=3)
    assert made
    assert all(env.closed for env in made)
