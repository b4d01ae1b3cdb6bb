"""Any problem as an environment of RLlib: with one agent per factor and the factor's credit as its reward, or with one
agent for all factors."""

from typing import Any

import gymnasium as gym
import numpy as np

from ...ppo.named_networks import find_network
from ...problems.registry import find_problem
from ..parallel_view import ParallelView
from ..views import FactorViews, Observe, flat_action, step_targets, to_gymnasium
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
    source, net = find_problem_and_network(problem, network)
    factors = FactorViews(source, net, weights=weights, local=local, observe=observe, identity=identity)
    return MultiAgentView(ParallelView(source, factors))


def find_problem_and_network(problem: Any, network: Any) -> tuple[Any, Any]:
    """Return the problem and the network, looked up in the registry if they are names."""
    # The problem first: a network such as "complete" takes its size from it.
    source = find_problem(problem) if isinstance(problem, str) else problem
    return source, find_network(source, network) if isinstance(network, str) else network


class MultiAgentView(MultiAgentEnv):
    """The MultiAgentEnv that `to_rllib` returns."""

    metadata: Any = {"render_modes": []}  # noqa: RUF012 (Gymnasium's)
    render_mode = None

    def __init__(self, view: ParallelView):
        self.view, self.network, self.weights = view, view.network, view.weights
        # RLlib reads `agents` before a reset; here all agents stay until the end of an episode.
        self.possible_agents, self.agents = list(view.possible_agents), list(view.possible_agents)
        self.action_spaces, self.observation_spaces = view.action_spaces, view.observation_spaces
        super().__init__()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Start an episode."""
        return self.view.reset(seed=seed, options=options)

    def step(self, action_dict: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Act with all agents."""
        obs, rewards, terminated, truncated, infos = self.view.step(action_dict)
        for flags in (terminated, truncated):
            flags["__all__"] = all(flags.values())
        return obs, rewards, terminated, truncated, infos

    def render(self) -> Any:
        """Render the environment."""
        return self.view.render()

    def close(self) -> None:
        """Close the environment."""
        self.view.close()


class JointEnv(gym.Wrapper):
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

    def __init__(self, config: Any):
        if "problem" not in config:
            raise ValueError(
                f"env_config: got {sorted(config)}, want 'problem', a name, a Problem or a function that returns an "
                "environment; FactoredPPOConfig().problem(…) sets it"
            )
        problem, network = find_problem_and_network(config["problem"], config.get("network"))
        super().__init__(to_gymnasium(problem))
        self.factors = FactorViews(problem, network, weights=config.get("weights"), observe="global")
        self.network, self.weights = self.factors.network, self.factors.weights
        self.observation_space, self.action_space = self.factors.observation_space, self.factors.joint_space()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        return np.array(obs, np.float32).ravel(), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the environment with an action."""
        # RLlib samples in the joint space, which has the components in order; the environment has its own space.
        row = flat_action(action).astype(np.float32)
        obs, reward, terminated, truncated, info = self.env.step(self.factors.components.to_environment(row))
        # λ may differ from that of the problem, so the scalar reward is computed anew.
        psi = step_targets(self.network, reward, info)
        info = {**info, "vector_reward": psi}
        return np.array(obs, np.float32).ravel(), float(self.weights @ psi), bool(terminated), bool(truncated), info
