"""Environments for workers to step: quick, and made of NumPy alone."""

import os
import subprocess
import sys
import tempfile
import time

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from factorax import InfluenceNetwork
from factorax.problems.failures import EpisodeLost

SPACES = {
    "categorical": spaces.MultiDiscrete([2, 3, 4]),
    "bernoulli": spaces.MultiBinary(3),
    "gaussian": spaces.Box(-1.0, 1.0, (3,), np.float32),
    "mixed": spaces.Tuple([spaces.Discrete(3), spaces.Box(-1.0, 1.0, (1,), np.float32), spaces.MultiBinary(1)]),
}


class Counter(gym.Env):
    """Counts up from its seed; ends by itself after `ends` steps, or is cut short after `cut`."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.MultiBinary(2)
    network = InfluenceNetwork.identity(2)
    weights = np.array([1.0, 2.0])

    def __init__(self, ends=99, cut=99, spoil=None, **changes):
        self.ends, self.cut, self.spoil, self.changes = ends, cut, spoil, changes
        self.time = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observe(), {}

    def observe(self):
        return np.float32([self.time])

    def step(self, action):
        self.time += 1
        psi = np.array([1.0, self.time])
        if self.spoil == self.time:
            psi[1] = np.nan
        out = [self.observe(), float(psi @ self.weights), self.time >= self.ends, self.time >= self.cut]
        info = {"vector_reward": psi} | self.changes.get("info", {})
        for i, name in enumerate(("obs", "reward", "terminated", "truncated")):
            out[i] = self.changes.get(name, out[i])
        return *out, {name: x for name, x in info.items() if x is not None}


class Drift(gym.Env):
    """A point that goes where the actions and chance push it, with a target for every action; masks now and then."""

    def __init__(self, kind="categorical", size=5, masks=False):
        self.action_space, self.size, self.masks = SPACES[kind], size, masks
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.network, self.weights = InfluenceNetwork.identity(3), np.ones(3)

    @staticmethod
    def local(obs):
        return obs[..., np.add.outer(np.arange(3), np.arange(2))]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = self.np_random.normal(size=self.size), 0
        return self.place.astype(np.float32), {}

    def step(self, action):
        flat = np.concatenate([np.ravel(part) for part in action]) if isinstance(action, tuple) else np.ravel(action)
        self.place = 0.9 * self.place + 0.3 * self.np_random.normal(size=self.size) + 0.1 * np.sin(flat.sum())
        self.time += 1
        psi = -np.abs(self.place[:3]) * (1 + flat)
        info = {"vector_reward": psi}
        if self.masks and self.time % 3 == 0 and self.place[0] > 0:
            info["factor_mask"] = self.place[:3] > 0
        cut = self.np_random.random() < 0.1
        return self.place.astype(np.float32), float(psi.sum()), False, cut, info


class Sensitive(Drift):
    """Loses an episode when chance will have it, which is the same for the same seed."""

    def step(self, action):
        out = super().step(action)
        if self.place[1] > 1.25:
            raise EpisodeLost(f"step {self.time}: fell over the edge at {self.place[1]:.3f}")
        return out


class Hopeless(Drift):
    def step(self, action):
        raise EpisodeLost("never works")


class Once(Drift):
    """Does something terrible in the third step of the first process that comes to it, and leaves a mark."""

    def __init__(self, mark, what, **options):
        super().__init__(**options)
        self.mark, self.what, self.count = mark, what, 0

    def step(self, action):
        self.count += 1
        if self.count == 13 and self._is_first():
            if self.what == "die":
                os.kill(os.getpid(), 9)
            elif self.what == "hang":
                time.sleep(1000)
        return super().step(action)

    def _is_first(self):
        """Leave the mark, unless another process has: two workers may come to this step at the same moment."""
        try:
            with open(self.mark, "x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return False
        return True


class Mortal(Drift):
    def step(self, action):
        os.kill(os.getpid(), 9)


class Littering(Drift):
    """Keeps a folder among the temporary ones, as simulators do."""

    def __init__(self, **options):
        super().__init__(**options)
        self.folder = tempfile.mkdtemp(prefix="littering-")


class External(Drift):
    """Has started a program, whose number is the name of a file."""

    def __init__(self, folder, **options):
        super().__init__(**options)
        code = "import signal, time; signal.signal(signal.SIGHUP, signal.SIG_IGN); time.sleep(1000)"
        self.program = subprocess.Popen([sys.executable, "-S", "-c", code])
        with open(os.path.join(folder, str(self.program.pid)), "w"):
            pass


class Forgetful(Drift):
    """Draws from a generator that no seed of a reset reaches."""

    def step(self, action):
        out = super().step(action)
        self.place = self.place + np.random.default_rng().normal(size=self.size)
        return (self.place.astype(np.float32), *out[1:])


class Slow(Drift):
    def step(self, action):
        time.sleep(0.04)
        return super().step(action)


class Broken(Drift):
    def step(self, action):
        raise KeyError("lane 7")


class Sized(Drift):
    """An observation that its space does not know of."""

    def reset(self, *, seed=None, options=None):
        return np.append(super().reset(seed=seed)[0], np.float32(0)), {}


class Spy(Drift):
    """Writes down what is loaded where it is made."""

    def __init__(self, path):
        super().__init__()
        with open(path, "w") as file:
            file.write("\n".join(sys.modules))


class OnlyOne(Drift):
    """Refuses to be created while its process has another one, as a simulator in a global library does."""

    metadata = {"one_per_process": True}  # noqa: RUF012
    reward_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
    is_open = False

    def __init__(self, steps_of=None, crash=False, **options):
        if OnlyOne.is_open:
            raise RuntimeError("this process has another instance")
        OnlyOne.is_open = True
        super().__init__(**options)
        self.steps_of, self.crash = steps_of, crash

    def step(self, action):
        assert OnlyOne.is_open
        if self.crash:
            raise KeyError("lane 7")
        if self.steps_of is not None:  # the folder in which each process that steps leaves a mark
            open(os.path.join(self.steps_of, str(os.getpid())), "w").close()
        return super().step(action)

    def close(self):
        OnlyOne.is_open = False
