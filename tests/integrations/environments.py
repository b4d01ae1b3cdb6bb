"""Environments that do what packages in the wild do."""

import gymnasium as gym
import numpy as np

from factorax import InfluenceNetwork

EYE = InfluenceNetwork.identity(2)


class Plain(gym.Env):
    """Two actions, two parts of a reward, in every form at once; ends after `ends` steps or is cut after `cut`."""

    observation_space = gym.spaces.Box(-100.0, 100.0, (2,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, ends=99, cut=5, **changes):
        self.ends, self.cut, self.changes = ends, cut, changes
        self.obs, self.parts = np.zeros(2, np.float32), np.zeros(2)
        for name in ("action_space", "observation_space", "reward_space", "network", "weights"):
            if name in changes:
                setattr(self, name, changes[name])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        self.obs[:] = self.np_random.normal(size=2)
        return self.observe(), {}

    def observe(self):
        return self.changes["observe"](self.obs) if "observe" in self.changes else self.obs

    def step(self, action):
        self.time += 1
        if isinstance(action, np.ndarray) and action.shape == (2,):
            self.obs[:] = 0.5 * self.obs + action
        self.parts[:] = -(self.obs**2)
        info = {
            "a": float(self.parts[0]),
            "b": {"c": float(self.parts[1]), "both": self.parts.copy()},
            "list": [1.0, 2.0],
        }
        if self.changes.get("mutates"):
            action *= 100
        reward = self.changes.get("reward", float(self.parts.sum()))
        if self.changes.get("vector"):
            reward = self.parts
        if self.time in self.changes.get("without", ()):
            del info["b"]
        return self.observe(), reward, self.time >= self.ends, self.time >= self.cut, info


class Agents:
    """A parallel environment in which agent i lives for ``lives[i]`` steps, and all are cut after `cut`."""

    metadata = {"name": "agents"}  # noqa: RUF012
    render_mode = None

    def __init__(self, lives=(2, 4, 9), cut=6, equal=False, truncates=()):
        self.possible_agents = [f"agent_{i}" for i in range(len(lives))]
        self.agents, self.lives, self.cut, self.equal, self.truncates = [], lives, cut, equal, truncates
        self.given = []
        self._spaces = {
            agent: (gym.spaces.Box(-2.0, -1.0, (i + 1,), np.float32), gym.spaces.Discrete(3, start=1))
            for i, agent in enumerate(self.possible_agents)
        }

    def observation_space(self, agent):
        return self._spaces[agent][0]

    def action_space(self, agent):
        return self._spaces[agent][1]

    def reset(self, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.agents, self.time = list(self.possible_agents), 0
        return self.observe(), {agent: {} for agent in self.agents}

    def observe(self):
        return {agent: self.rng.uniform(-2, -1, self._spaces[agent][0].shape).astype("f4") for agent in self.agents}

    def step(self, actions):
        self.given.append(dict(actions))
        self.time += 1
        obs, rewards, terminations, truncations = self.observe(), {}, {}, {}
        for agent in self.agents:
            i = self.possible_agents.index(agent)
            rewards[agent] = 7.0 if self.equal else 10.0 * (i + 1) + self.time
            over = self.time >= self.lives[i]
            terminations[agent] = over and i not in self.truncates
            truncations[agent] = self.time >= self.cut or (over and i in self.truncates)
        infos = {agent: {} for agent in self.agents}
        self.agents = [agent for agent in self.agents if not (terminations[agent] or truncations[agent])]
        return obs, rewards, terminations, truncations, infos

    def render(self):
        return None

    def close(self):
        return None
