"""Stable-Baselines3's PPO on a problem with the settings and files of ``factorax train``, for comparisons.

Actions are scaled to [−1, 1], and observations and rewards are normalised, as is common there. A run that was stopped
cannot be resumed and starts again.

    python -m factorax_paper.harness.sb3_baseline rddl:UAV_ippc2023/4 --out runs/sb3
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import tyro

from factorax._files import write_json
from factorax.problems.registry import find_problem
from factorax.spaces import ActionSpace


@dataclass(frozen=True)
class SB3Settings:
    """The settings of `factorax.ppo.Config` that Stable-Baselines3 also has."""

    problem: tyro.conf.Positional[str]
    out: Path
    seed: int = 0
    total_timesteps: int = 100_000
    n_envs: int = 8
    n_steps: int = 256
    batch_size: int = 64
    n_epochs: int = 10
    learning_rate: float = 3e-4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    hidden: tuple[int, ...] = (64, 64)


class Scaled(gym.Wrapper):
    """All components of a bounded Box, or of a Dict or Tuple of them, as one Box from −1 to 1."""

    def __init__(self, env: gym.Env):
        super().__init__(env)
        self.flat = ActionSpace.of(env.action_space, distribution="clip")
        if not np.isfinite([self.flat.low, self.flat.high]).all() or self.flat.discrete.any():
            raise ValueError(f"action space: got {env.action_space}, want a bounded Box, or a Dict or Tuple of them")
        self.action_space = gym.spaces.Box(-1.0, 1.0, (len(self.flat),), np.float32)

    def step(self, action: np.ndarray) -> Any:
        """Return the action in the space of the environment."""
        low, high = self.flat.low, self.flat.high
        return self.env.step(self.flat.to_environment(low + (np.asarray(action) + 1) * (high - low) / 2))


def ppo(environments: Any, settings: Any, seed: int) -> Any:
    """Return Stable-Baselines3's PPO with these settings, an `SB3Settings` or a `factorax.ppo.Config`."""
    import torch  # pyright: ignore[reportMissingImports]
    from stable_baselines3 import PPO  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)  # more threads are slower when the cores are busy
    return PPO(
        "MlpPolicy",
        environments,
        n_steps=settings.n_steps,
        batch_size=settings.batch_size,
        n_epochs=settings.n_epochs,
        learning_rate=settings.learning_rate,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        seed=seed,
        policy_kwargs={"net_arch": list(settings.hidden)},
        device="cpu",
    )


def main(settings: SB3Settings) -> None:
    """Train, and write ``metrics.jsonl`` and ``evaluation.json``."""
    from stable_baselines3.common.callbacks import BaseCallback  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.evaluation import evaluate_policy  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.monitor import Monitor  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # pyright: ignore[reportMissingImports]

    make: Any = find_problem(settings.problem)
    settings.out.mkdir(parents=True, exist_ok=True)

    class Write(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            episodes = [e["r"] for e in self.model.ep_info_buffer or ()][-settings.n_envs * settings.n_steps // 100 :]
            if episodes:
                row = {"time/total_timesteps": self.num_timesteps, "rollout/ep_rew_mean": float(np.mean(episodes))}
                file.write(json.dumps(row) + "\n")
                file.flush()

    envs = DummyVecEnv([lambda: Monitor(Scaled(make())) for _ in range(settings.n_envs)])
    normalised = VecNormalize(envs, gamma=settings.gamma)
    model = ppo(normalised, settings, settings.seed)
    with (settings.out / "metrics.jsonl").open("w", encoding="utf-8") as file:
        model.learn(settings.total_timesteps, callback=Write())
    normalised.training = normalised.norm_reward = False
    returns: Any = evaluate_policy(model, normalised, 10, return_episode_rewards=True)[0]
    write_json(settings.out / "evaluation.json", {"return": float(np.mean(returns)), "episodes": returns})


if __name__ == "__main__":
    main(tyro.cli(Annotated[SB3Settings, tyro.conf.arg(name="")]))
