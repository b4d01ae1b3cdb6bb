"""Environments for the tests of RLlib."""

import gymnasium as gym
import numpy as np
from integrations.environments import EYE, Plain

import factorax as fx

HOST = fx.wrap(lambda: Plain(cut=4), EYE, reward="info:a,b.c", local=lambda obs: obs[..., :, None])


def mixed():
    """An action of two kinds, and a target for each of its three components."""

    class Mixed(gym.Env):  # here, so that it is sent to env runners by value
        observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        action_space = gym.spaces.Dict(a=gym.spaces.Box(-1.0, 1.0, (2,)), b=gym.spaces.Discrete(3, start=5))
        network = fx.InfluenceNetwork.identity(3)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(2, np.float32), {}

        def step(self, action):
            psi = np.append(action["a"], action["b"])
            return np.zeros(2, np.float32), float(psi.sum()), False, True, {"vector_reward": psi}

    return Mixed
