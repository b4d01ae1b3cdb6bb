"""The benchmark in SUMO as a PettingZoo environment, with one agent per light."""

from typing import Any

import gymnasium as gym
import numpy as np

from factorax._credit import credit
from factorax.structure import InfluenceNetwork

from ..settings import Traffic
from .env import TrafficEnv

_Base: Any = None
try:
    from pettingzoo import ParallelEnv as _Base  # pyright: ignore[reportMissingImports]
except ImportError:
    _Base = object


class TrafficParallelEnv(_Base):
    """A grid of traffic lights in SUMO, with an agent ``center{k}`` per light.

    - **Observation**: the 42 numbers of the local observation of a light.
    - **Action**: ``Discrete(2)``, where 1 requests a switch.
    - **Reward**: [K ψ]ₖ, the sum of the targets that the light influences in `network`; with ``"complete"``, all
      targets.
    - **Infos**: those of the joint environment, with all targets in ``"vector_reward"``.

    `traffic`, `network` and `options` are those of `TrafficEnv`.
    """

    metadata: dict[str, Any] = {"name": "factorax_traffic_v0", "render_modes": []}  # noqa: RUF012 (PettingZoo's own)

    def __init__(self, traffic: Traffic | None = None, *, network: str | InfluenceNetwork = "incident", **options: Any):
        if _Base is object:
            raise ImportError("TrafficParallelEnv needs the package pettingzoo: pip install pettingzoo")
        self.joint = TrafficEnv(traffic, network=network, **options)
        self.render_mode = None
        self.possible_agents = list(self.joint.grid.lights)
        self.agents: list[str] = []
        self.observation_spaces = {a: gym.spaces.Box(0.0, 1.0, (42,), np.float32) for a in self.possible_agents}
        self.action_spaces = {a: gym.spaces.Discrete(2) for a in self.possible_agents}

    def observation_space(self, agent: str) -> gym.Space:
        """Return the observation space of an agent, the same for all."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gym.Space:
        """Return the action space of an agent, the same for all."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict, dict]:
        """Start an episode."""
        obs, info = self.joint.reset(seed=seed)
        self.agents = list(self.possible_agents)
        return self._each(self.joint.local(obs)), {agent: dict(info) for agent in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[dict, dict, dict, dict, dict]:
        """Simulate one second."""
        agents = self.agents
        obs, _, terminated, truncated, info = self.joint.step(np.array([actions[a] for a in agents]))
        psi = info["vector_reward"].astype(np.float64)
        rewards = credit(self.joint.network, psi, self.joint.weights)
        local = self._each(self.joint.local(obs))
        if terminated or truncated:
            self.agents = []
        return (
            local,
            {a: float(r) for a, r in zip(agents, rewards, strict=True)},
            dict.fromkeys(agents, terminated),
            dict.fromkeys(agents, truncated),
            {a: dict(info) for a in agents},
        )

    def _each(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        return dict(zip(self.possible_agents, rows, strict=True))

    def close(self) -> None:
        """Close SUMO."""
        self.joint.close()
