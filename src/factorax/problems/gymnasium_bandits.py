"""The bandits as Gymnasium environments: one step per episode, with the vector of targets in `info`."""

from typing import Any, Literal

import gymnasium as gym
import numpy as np

from .._checks import check_type, real_array, shown
from .bandits import Bandit, draw_centre, relu_bandit, search_bandit


class BanditEnv(gym.Env[np.int64, np.ndarray]):
    """A bandit as a Gymnasium environment that works with all standard wrappers and vectorisers.

    - **Observation**: ``Discrete(1)``, always 0: there is one state.
    - **Action**: ``Box`` of shape ``(n,)``, unbounded, in raw units.
    - **Reward**: the scalar Σⱼ λⱼ ψⱼ. The vector ψ is in ``info["vector_reward"]``, and `reward_space` is its space,
      as in MO-Gymnasium. `weights` is λ and `network` the influence network.
    - **End**: every step is terminal.
    """

    metadata: dict[str, Any] = {"render_modes": [], "raw_actions": True}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, bandit: Bandit):
        check_type("bandit", bandit, Bandit, "a Bandit, such as search_bandit(4)")
        m = bandit.network.shape[1]
        self.bandit, self.network, self.weights = bandit, bandit.network, bandit.weights
        self.observation_space = gym.spaces.Discrete(1)
        self.action_space = gym.spaces.Box(-np.inf, np.inf, (bandit.n,), np.float32)
        self.reward_space = gym.spaces.Box(-np.inf, 0.0, (m,), np.float32)
        self.reward_dim = m

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Start an episode. Nothing is random: the bandit does not change."""
        super().reset(seed=seed)
        return np.int64(0), {}

    def step(self, action: np.ndarray) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Step the environment with an action."""
        raw_action, action = action, real_array("action", action, finite=False).astype(np.float64)
        if action.shape != (self.bandit.n,):
            raise ValueError(f"action: got {shown(raw_action)}, shape {action.shape}, want ({self.bandit.n},)")
        psi = self.bandit.targets(action)
        return np.int64(0), float(self.bandit.weights @ psi), True, False, {"vector_reward": psi.astype(np.float32)}


def make_search_bandit(
    n: int = 1000, k: int = 0, penalty: float = 0.0, seed: int = 0, norm: Literal[1, 2] = 1, scale: float | None = None
) -> BanditEnv:
    """Return a search bandit, for ``gymnasium.make("factorax/SearchBandit-v0", n=…, k=…, penalty=…, seed=…)``.

    `seed` draws the centre; the other arguments are as in `search_bandit`.
    """
    return BanditEnv(search_bandit(draw_centre(n, seed), k=k, penalty=penalty, norm=norm, scale=scale))


def make_relu_bandit(n: int = 1000, seed: int = 0) -> BanditEnv:
    """Return a ReLU bandit, for ``gymnasium.make("factorax/ReluBandit-v0", n=…, seed=…)``; `seed` draws the signs."""
    return BanditEnv(relu_bandit(np.random.default_rng(seed).choice([-1.0, 1.0], n)))
