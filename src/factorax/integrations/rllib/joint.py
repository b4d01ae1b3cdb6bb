"""Any problem as the single-agent environment of RLlib's factored PPO."""

from typing import Any

import gymnasium as gym
import numpy as np

from ..views import FactorViews, to_gymnasium
from .multi_agent import named


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
