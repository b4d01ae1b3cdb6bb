"""The value of memory and communication in traffic: `python -m benchmarks.policy_study`.

- memory: lights of a 3×3 grid with only a detector at each stop line, with a perceptron and with a GRU;
- messages: lights that observe their surroundings, with a perceptron and with attention to neighbouring lights, on
  2×6 and 10×10 grids.

Settings, numbers of steps and seeds are the same within a study; only the architecture differs. Five seeds train in
parallel. Writes ``benchmarks/policy_study.json`` and plots learning curves; ``python -m benchmarks.policy_study
memory`` runs only that part, and ``… draw`` none.
"""

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import matplotlib.pyplot as plt
import numpy as np
from factorax_traffic import lanes, stop_line_detectors
from scipy import stats

from factorax.ppo import Compiled, Config, Learner

SEEDS = 5
FIGURE = Path(__file__).parent.parent / "docs" / "images" / "policy_study.png"
COMMON: dict[str, Any] = {
    "n_steps": 400,
    "policy": "shared",
    "critic": "factor",
    "hidden": (32, 32, 32),
    "n_epochs": 5,
    "learning_rate": 1e-3,
    "ent_coef": 0.02,
    "anneal": ("learning_rate", "ent_coef"),
    "gamma": 0.95,
    "check_network": False,
}


def curve(problem: Any, config: Config, local: Any, network: Any) -> dict[str, Any]:
    """Return the return of each rollout for each seed, and the mean return of 20 episodes of the last policies."""
    learner = Learner.of(problem, network, config, local=local)
    compiled = Compiled(learner)
    states = compiled.init_seeds(range(SEEDS))
    returns, left, start = [], -(-config.total_timesteps // config.rollout_steps), time.perf_counter()
    while left:
        count = min(left, compiled.max_updates)
        states, metrics = compiled.updates(states, count)
        returns.append(metrics["rollout/ep_rew_mean"][:count])
        left -= count
    seconds = time.perf_counter() - start
    final = []
    for i in range(SEEDS):
        arrays, rest = eqx.partition(states, eqx.is_array)
        state = eqx.combine(jax.tree.map(lambda x, i=i: x[i], arrays), rest)
        episodes = compiled.collector.play_episodes(learner.behaviour(state), 20, deterministic=False, seed=0)
        final.append(float((episodes @ learner.spec.weights).mean()))
    return {"returns": np.concatenate(returns).T.round(3).tolist(), "final": final, "seconds": round(seconds, 1)}


def memory() -> dict[str, Any]:
    problem = lanes(3, 3, norm="fixed")
    local = partial(stop_line_detectors, problem.simulator.traffic.grid)
    settings = COMMON | {
        "total_timesteps": 4_800_000,
        "n_envs": 16,
        "batch_size": 1600,
        "critic": "factor,trunk=shared",
    }
    kinds = {"perceptron": {}, "gru": {"architecture": "gru,sequence_length=50"}}
    network = problem.influence("incident")
    found = {name: curve(problem, Config(**settings | more), local, network) for name, more in kinds.items()}
    return found | {"perceptron, sees everything near": curve(problem, Config(**settings), None, network)}


def messages(rows: int, columns: int, steps: int) -> dict[str, Any]:
    options: dict[str, Any] = {"initial": "everywhere"} if rows > 4 else {}
    problem = lanes(rows, columns, norm="fixed", **options)
    settings = COMMON | {"total_timesteps": steps, "n_envs": 16, "batch_size": 640, "hidden": (32, 32)}
    kinds = {"perceptron": {}, "attention": {"architecture": "attention"}}
    network = problem.influence("corridor")
    return {name: curve(problem, Config(**settings | more), None, network) for name, more in kinds.items()}


STUDIES = {
    "memory": memory,
    "messages 2x6": partial(messages, 2, 6, 4_800_000),
    "messages 10x10": partial(messages, 10, 10, 1_600_000),
}


TITLES = {
    "memory": "3×3 lights, detectors at stop lines",
    "messages 2x6": "2×6 lights, local observations",
    "messages 10x10": "10×10 lights, local observations",
}
LABELS = {
    "perceptron": "layers",
    "gru": "GRU",
    "perceptron, sees everything near": "layers, all cars near a light",
    "attention": "attention to adjacent lights",
}
"""Titles and names in the figure, for those in the file."""


def draw(studies: dict[str, Any], path: Path) -> None:
    """Plot learning curves: means over seeds of the last ten rollouts, and Student's 95 % intervals."""
    figure, panels = plt.subplots(1, len(studies), figsize=(4 * len(studies), 3.2), layout="constrained")
    quantile = float(stats.t.ppf(0.975, SEEDS - 1))
    for panel, (title, results) in zip(panels, studies.items(), strict=True):
        for kind, result in results.items():
            if isinstance(result, dict):
                returns = np.array(result["returns"])
                smooth = np.apply_along_axis(lambda x: np.convolve(x, np.ones(10) / 10, "valid"), 1, returns)
                mean, error = smooth.mean(axis=0), smooth.std(axis=0, ddof=1) / SEEDS**0.5
                steps = (np.arange(len(mean)) + 10) * 16 * COMMON["n_steps"] / 1e6
                panel.plot(steps, mean, label=LABELS[kind])
                panel.fill_between(steps, mean - quantile * error, mean + quantile * error, alpha=0.25)
        panel.set(title=TITLES[title], xlabel="million environment steps", ylabel="return of an episode")
        panel.legend(loc="lower right", fontsize="small")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    path = Path(__file__).with_suffix(".json")
    for name, study in STUDIES.items():
        if sys.argv[1:] and not any(name.startswith(word) for word in sys.argv[1:]):
            continue
        results = {"device": jax.devices()[0].device_kind} | study()
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        path.write_text(json.dumps(found | {name: results}) + "\n", encoding="utf-8")
        for kind, result in results.items():
            if isinstance(result, dict):
                print(name, kind, result["final"], f"{result['seconds']} s", flush=True)
    draw(json.loads(path.read_text(encoding="utf-8")), FIGURE)


if __name__ == "__main__":
    main()
