"""What a step of one vector environment means, and messages about those that do something else."""

import re
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from rollouts.environments import Drift
from rollouts.helping import iterations
from rollouts.vectors import N, Own, sync, vector_plan

from factorax.rollouts import InlineBackend
from factorax.rollouts.environments import Vector
from factorax.spaces import ActionSpace

SPACE = ActionSpace.of(Drift().action_space)


class Spoilt(Own):
    """Returns something else in one place of its third step."""

    def __init__(self, place, value, **options):
        super().__init__(**options)
        self.place, self.value, self.time = place, value, 0

    def step(self, actions):
        out, self.time = list(super().step(actions)), self.time + 1
        if self.time == 3:
            if self.place == "all":
                return self.value
            if isinstance(self.place, int):
                out[self.place] = self.value
            elif self.value is None:
                del out[4][self.place]
            else:
                out[4][self.place] = self.value
        return tuple(out)


BAD = {
    "observations: got shape (3, 4), want (3, 5)": (0, np.zeros((N, 4))),
    "observations: got shape (2, 5), want (3, 5), one row for each of 3 environments": (0, np.zeros((2, 5))),
    "rewards: got shape (3,), want (3, 3), one row for each of 3 environments and": ("vector_reward", None),
    "info['vector_reward']: got shape (2, 3), want one row for each of 3": ("vector_reward", np.zeros((2, 3))),
    "rewards: got shape (3, 2), want (3, 3)": ("vector_reward", np.zeros((3, 2))),
    "terminated: got array([0.2, 0. , 0. ]), want 3 booleans": (2, np.array([0.2, 0, 0])),
    "truncated: got None, want 3 booleans": (3, None),
    "info['factor_mask']: got shape (3, 2), want booleans of shape (3, 3)": ("factor_mask", np.ones((N, 2), bool)),
    "info: got None, want a dict": (4, None),
    "step: got 4 values, want five": ("all", (np.zeros((N, 5)), np.zeros(N), np.zeros(N, bool), {})),
    "info['vector_reward']: is missing for environment 1, want a row of 3 in each step": (
        "_vector_reward",
        np.array([True, False, True]),
    ),
}


def play(make):
    plan = vector_plan(make, n_envs=N)
    InlineBackend(plan).collect(iterations(plan, 1)[0])


@pytest.mark.parametrize("message", BAD)
def test_errors_name_the_vector_the_step_and_the_fix(message):
    with pytest.raises(ValueError, match=re.escape(f"environments 0 to 2 (Spoilt), step 3: {message}")):
        play(partial(Spoilt, *BAD[message], mode=AutoresetMode.SAME_STEP))


def test_dictionaries_of_actions_are_batched():
    class Arms(Drift):
        def __init__(self):
            super().__init__()
            box = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
            self.action_space = gym.spaces.Dict({"arm": box, "leg": gym.spaces.Discrete(3, start=1)})

        def step(self, action):
            assert self.action_space.contains(action)
            return super().step(np.append(action["arm"], action["leg"]))

    space = ActionSpace.of(Arms().action_space)
    vector = Vector(sync(make=Arms), space, 3, 3)
    vector.reset([0, 1, 2])
    actions = np.array([[0.5, -0.5, 0], [0.1, 2.0, 1], [0, 0, 2]], np.float32)
    next_obs = np.zeros((N, 5), np.float32)
    vector.step(0, space.to_environments(actions), next_obs, np.zeros((N, 3)))
    for i in range(N):
        alone = Arms()
        alone.reset(seed=i)
        np.testing.assert_array_equal(alone.step(space.to_environment(actions[i]))[0], next_obs[i])


def test_actions_of_another_space_are_refused():
    with pytest.raises(ValueError, match=r"action_space: got .*, want .*, as in the first environment"):
        Vector(sync(kind="gaussian"), SPACE, 3, 3, like=Drift().action_space)
