"""Any problem as an RLlib MultiAgentEnv, with one agent per factor and the factor's credit as its reward."""

from typing import Any

import gymnasium as gym
import numpy as np

from ...learning.named_networks import find_network
from ...problems.registry import find_problem
from ..parallel_view import ParallelView
from ..views import FactorViews, Observe
from ._packages import MultiAgentEnv, need


def to_rllib(
    problem: Any,
    network: Any = None,
    *,
    weights: Any = None,
    local: Any = None,
    observe: Observe = "local",
    identity: bool = False,
) -> "MultiAgentView":
    """Return a problem as a MultiAgentEnv, so that any multi-agent algorithm of RLlib becomes a factored one.

    **Arguments**

    - `problem`, `network`, `weights`, `local`: as for `FactoredPPO`; or names of a problem and a network, as for
      ``factorax train``.
    - `observe`: ``"local"``: an agent receives its local observation if the problem has one; ``"global"``: all of it.
    - `identity`: whether to append the index of the factor, one-hot, for a policy shared by all agents.

    The agents are the rows of the network, and the reward of agent i is [K(λ∘r)]ᵢ, so RLlib's PPO, in which each agent
    maximises its own return, follows the factored policy gradient. RLlib has no masks: an agent whose factor did not
    act has ``infos[agent]["acted"]`` False, but still learns from its credit.
    """
    need("to_rllib")
    source, net = named(problem, network)
    return MultiAgentView(
        ParallelView(source, FactorViews(source, net, weights=weights, local=local, observe=observe)), identity
    )


def named(problem: Any, network: Any) -> tuple[Any, Any]:
    """Return the problem and the network, looked up in the registry if they are names."""
    source = find_problem(problem) if isinstance(problem, str) else problem
    return source, find_network(source, network) if isinstance(network, str) else network


class MultiAgentView(MultiAgentEnv):
    """The MultiAgentEnv that `to_rllib` returns."""

    metadata: Any = {"render_modes": []}  # noqa: RUF012 (Gymnasium's)
    render_mode = None

    def __init__(self, view: ParallelView, identity: bool):
        self._view = view
        self.network, self.weights = view.network, view.weights
        # all agents stay until the end
        self.possible_agents, self.agents = list(view.possible_agents), list(view.possible_agents)
        n = len(self.possible_agents)
        self._identity = dict(zip(self.possible_agents, np.eye(n, dtype=np.float32), strict=True)) if identity else None
        self.action_spaces = view.action_spaces
        size = view.observation_spaces[self.agents[0]].shape[0] + (n if identity else 0)
        self.observation_spaces = {
            agent: gym.spaces.Box(-np.inf, np.inf, (size,), np.float32) for agent in self.possible_agents
        }
        super().__init__()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Start an episode."""
        obs, infos = self._view.reset(seed=seed, options=options)
        return self._identified(obs), infos

    def step(self, action_dict: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Act with all agents."""
        obs, rewards, terminated, truncated, infos = self._view.step(action_dict)
        for flags in (terminated, truncated):
            flags["__all__"] = all(flags.values())
        return self._identified(obs), rewards, terminated, truncated, infos

    def _identified(self, obs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if self._identity is None:
            return obs
        return {agent: np.concatenate([local, self._identity[agent]]) for agent, local in obs.items()}

    def render(self) -> Any:
        """Render the environment."""
        return self._view.render()

    def close(self) -> None:
        """Close the environment."""
        self._view.close()
