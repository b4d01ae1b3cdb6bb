"""Any problem as an environment of RLlib: with one agent per factor and the factor's credit as its reward, or with one
agent for all factors."""

from typing import Any

import gymnasium as gym
import numpy as np

from ...ppo.named_networks import find_network
from ...problems.registry import find_problem
from ..parallel_view import ParallelView
from ..views import FactorViews, Observe, to_gymnasium
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


class JointEnv(gym.Env):
    """A problem with one agent for all factors: the scalar reward λ·r, with its parts in ``info["vector_reward"]``.

    - `config`: RLlib's `env_config`, a dictionary with ``"problem"``, and ``"network"`` and ``"weights"`` if they are
      not those of the problem, all as for `to_rllib`.

    The action space is one for which RLlib has a distribution, with the components in order: a Box, a MultiDiscrete
    (also for switches, because RLlib does not support MultiBinary), a Discrete, or a Tuple of single components.

    >>> env = JointEnv({"problem": "contextual-bandit:3"})
    >>> env.action_space
    MultiDiscrete([2 2 2])
    >>> obs, _ = env.reset(seed=0)
    >>> env.step((obs > 0).astype(int))[4]["vector_reward"]
    array([1., 1., 1.])
    """

    metadata: Any = {"render_modes": []}  # noqa: RUF012 (Gymnasium's)

    def __init__(self, config: Any):
        if "problem" not in config:
            raise ValueError(
                f"env_config: got {sorted(config)}, want 'problem', a name, a Problem or a function that returns an "
                "environment; FactoredPPOConfig().problem(…) sets it"
            )
        problem, network = named(config["problem"], config.get("network"))
        self._factors = FactorViews(problem, network, weights=config.get("weights"), observe="global")
        self.env = to_gymnasium(problem)
        self.network, self.weights = self._factors.network, self._factors.weights
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (self._factors.spec.n_inputs,), np.float32)
        self.action_space = self._factors.joint_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        obs, info = self.env.reset(seed=seed, options=options)
        return np.array(obs, np.float32).ravel(), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the environment with an action."""
        row = np.concatenate([np.ravel(part) for part in action]) if isinstance(action, tuple) else np.ravel(action)
        env_action = self._factors.space.to_environment(row.astype(np.float32))
        obs, reward, terminated, truncated, info = self.env.step(env_action)
        psi = self._factors.targets(reward, info)
        info = {**info, "vector_reward": psi}
        return np.array(obs, np.float32).ravel(), float(self.weights @ psi), bool(terminated), bool(truncated), info

    def render(self) -> Any:
        """Render the environment."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()
