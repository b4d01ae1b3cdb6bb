"""Environments that draw more random numbers after some actions than after others."""

import random

import gymnasium as gym
import numpy as np


class Shifting(gym.Env):
    """ψᵢ = 2 aᵢ + noise, and one number more is drawn for every aᵢ above 0: K = I, and streams shift."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    n = 4
    extra = 1

    def __init__(self):
        self.action_space = gym.spaces.Box(-1, 1, (self.n,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.start(seed)
        return np.zeros(2, np.float32), {}

    def start(self, seed):
        """Seed what else there is to seed."""

    def normal(self):
        return self.np_random.normal()

    def step(self, action):
        noise = []
        for each in action:
            noise.append(self.normal())
            for _ in range(self.extra * int(each > 0)):
                self.normal()
        psi = 2 * np.asarray(action, float) + noise
        weather = self.normal()
        return np.array([weather, action[0]], np.float32), float(psi.sum()), False, False, {"vector_reward": psi}


class Steady(Shifting):
    """The same number of draws whatever the actions."""

    extra = 0


class Nested(Shifting):
    """The generator belongs to a part of the simulator."""

    class Noise:
        def __init__(self, seed):
            self.sources = {"wind": [np.random.RandomState(seed)]}

    def start(self, seed):
        self.noise = self.Noise(seed)

    def normal(self):
        return self.noise.sources["wind"][0].normal()


class Global(Shifting):
    """NumPy's global generator, seeded by `reset`."""

    def start(self, seed):
        np.random.seed(seed)  # noqa: NPY002

    def normal(self):
        return np.random.normal()  # noqa: NPY002


class Hidden(Shifting):
    """A generator in a closure, which nobody can reach."""

    def start(self, seed):
        self.normal = hidden(seed)


class HiddenSteady(Hidden):
    extra = 0


class Seldom(Steady):
    """Python's global generator draws in no run but those in which the first action is large."""

    def start(self, seed):
        random.seed(seed)

    def step(self, action):
        if action[0] > 0.8:
            random.random()
        return super().step(action)


def hidden(seed):
    """A function that draws from a generator of its own."""
    rng = np.random.default_rng(seed)
    return lambda: rng.normal()
