"""Environments that misbehave in their fourth step, or when they are reset, and what is said of it."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from factorax import InfluenceNetwork

NAN = float("nan")
FIVE = r"want five values, \(observation, reward, terminated, truncated, info\)"
STEP = 4
"""The step of the first episode that goes wrong."""


class Misbehaving(gym.Env):
    """Two actions, two targets, two numbers to observe. `change` takes what a step returns, and returns something else;
    `begin` does so for a reset."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.MultiBinary(2)
    network = InfluenceNetwork.identity(2)

    def __init__(self, change=None, begin=None):
        self.change, self.begin, self.time = change, begin, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        returned = np.zeros(2, np.float32), {}
        return returned if self.begin is None else self.begin(*returned)

    def step(self, action):
        self.time += 1
        parts = np.array([1.0, 2.0])
        returned = np.full(2, self.time, np.float32), 3.0, False, False, {"vector_reward": parts}
        return returned if self.change is None or self.time < STEP else self.change(*returned)


def with_info(**entries):
    return lambda obs, reward, ended, cut, info: (obs, reward, ended, cut, info | entries)


def with_part(place, value):
    return lambda *returned: (*returned[:place], value, *returned[place + 1 :])


OBSERVATION, REWARD, TERMINATED, TRUNCATED, INFO = range(5)
STEPS = [
    (
        lambda *returned: returned[:3] + returned[4:],
        f"step: got 4 values, {FIVE}; this is the interface of Gym before 0.26",
    ),
    (lambda *returned: None, f"step: got None, {FIVE}"),
    (with_part(INFO, None), "info: got None, want a dict"),
    (with_part(TERMINATED, "False"), "terminated: got 'False', want True or False"),
    (with_part(TRUNCATED, 2), "truncated: got 2, want True or False"),
    (with_part(OBSERVATION, None), "observation: got None, want real numbers"),
    (with_part(OBSERVATION, np.ones(3)), r"observation: got 3 numbers in shape \(3,\), want 2"),
    (with_part(OBSERVATION, [[1], [1, 2]]), r"observation: got \[\[1\], \[1, 2\]\], want real numbers"),
    (with_part(OBSERVATION, {"agent": np.ones(2)}), "observation: got .*use fx.wrap for a PettingZoo environment"),
    (with_part(OBSERVATION, np.array([1, np.inf])), "the observation is not finite"),
    (with_info(vector_reward=None), "reward: got None, want real numbers"),
    (with_info(vector_reward=np.ones(3)), r"info\['vector_reward'\]: got 3 targets, want 2"),
    (with_info(vector_reward=[NAN, 1.0]), "target 0 is nan"),
    (with_info(vector_reward={"a": 1.0}), "reward: got {'a': 1.0}, want .* use fx.wrap for a PettingZoo environment"),
    (with_info(factor_mask=[True]), r"info\['factor_mask'\]: got \[True\], want 2 booleans"),
    (with_info(factor_mask=[NAN, 1.0]), r"info\['factor_mask'\]: got \[nan, 1.0\], want 2 booleans"),
    (with_info(target_terminated=[False]), r"info\['target_terminated'\]: got \[False\], want 2 booleans, one per"),
]
"""What a step is changed by, and the message."""

RESETS = [
    (lambda obs, info: obs, r"reset: got array\(\[0., 0.\], dtype=float32\), want \(observation, info\)"),
    (lambda obs, info: (np.ones(3), info), r"observation: got 3 numbers in shape \(3,\), want 2"),
    (lambda obs, info: (obs * NAN, info), "observation: got array.* from reset, want finite numbers"),
]


class Fickle(Misbehaving):
    """Has another action space after every reset."""

    def reset(self, *, seed=None, options=None):
        self.action_space = spaces.MultiBinary(3)
        return super().reset(seed=seed)


class Spaceless(Misbehaving):
    action_space = None


class Unobserved(Misbehaving):
    observation_space = None
