"""What training reaches, not how fast: `python -m benchmarks.scores`, some ten minutes.

Plain PPO side by side with Stable-Baselines3's on two environments that nobody here wrote, same settings and seeds. It
prints a table and writes ``benchmarks/scores.json``.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table

from factorax.learning import Config, FactoredPPO
from factorax.runs import iqm, probability_of_improvement

from .bench_learner import stable_baselines

EPISODES = 20
SIDE_BY_SIDE: dict[str, Config] = {
    "CartPole-v1": Config(
        total_timesteps=51_200,
        n_envs=8,
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        learning_rate=1e-3,
        discount=0.98,
        gae_lambda=0.8,
        estimator="vanilla",
    ),
    "Pendulum-v1": Config(
        total_timesteps=102_400,
        n_envs=4,
        n_steps=1024,
        batch_size=64,
        n_epochs=10,
        learning_rate=1e-3,
        discount=0.9,
        estimator="vanilla",
    ),
}


def score(name: str, act: Callable[[Any], Any]) -> float:
    """The mean return over episodes that begin in the same states for all."""
    env, returns = gym.make(name), []
    for episode in range(EPISODES):
        obs, _ = env.reset(seed=1000 + episode)
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(act(obs))
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


def side_by_side(name: str, config: Config, seeds: int) -> dict[str, list[float]]:
    """Scores of the final policy of each seed, without exploration."""
    scores: dict[str, list[float]] = {"factorax": [], "Stable-Baselines3": []}
    for seed in range(seeds):
        settings: dict[str, Any] = vars(config) | {"seed": seed}
        ours = FactoredPPO(lambda: gym.make(name), **settings).learn(progress_bar=False)
        scores["factorax"].append(score(name, partial(ours.predict, deterministic=True)))
        theirs: Any = stable_baselines(config, lambda: gym.make(name), seed)
        theirs.learn(config.total_timesteps)
        scores["Stable-Baselines3"].append(score(name, lambda obs, t=theirs: t.predict(obs, deterministic=True)[0]))
        print(name, seed, {who: round(s[-1], 1) for who, s in scores.items()}, file=sys.stderr, flush=True)
    return scores


def main() -> None:
    found = {name: side_by_side(name, config, 5) for name, config in SIDE_BY_SIDE.items()}
    Path(__file__).with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    table = Table("", "", "interquartile mean (95 %)", "seeds, lowest to highest", "better with probability (95 %)")
    for name, scores in found.items():
        (ours, other), labels = scores.values(), list(scores)
        better = probability_of_improvement(np.array(ours), np.array(other))
        for label, values, chance in zip(labels, (ours, other), (f"{better}", ""), strict=True):
            table.add_row(name, label, str(iqm(np.array(values))), f"{min(values):.1f} … {max(values):.1f}", chance)
            name = ""
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
