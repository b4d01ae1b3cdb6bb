"""Learning with each `distribution` if bounds are far from ±1: `python -m benchmarks.action_scale`.

Uses the same settings and numbers of steps for each distribution of actions, and compares with uniformly random
actions. Prints a table and writes ``benchmarks/action_scale.json``. ``python -m benchmarks.action_scale Reservoir``
measures only problems with names that start with this.
"""

import json
import sys
import warnings
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table

import factorax as fx
from factorax.integrations import rddl, to_gymnasium
from factorax.problems import Problem, chain
from factorax.runs import normal_mean

DISTRIBUTIONS = ("clip", "scale", "tanh", "beta")
SEEDS = 3
EPISODES = 10
GRAMS = 125.0
"""Weight in grams of a parcel of size 1."""


@dataclass(frozen=True)
class Case:
    """A problem and its training length."""

    problem: Any
    bounds: str
    settings: dict[str, Any]


def parcels() -> Problem:
    """Return `chain` with actions in grams from 0 to 500 instead of −2 to 2."""
    problem = chain(8)

    def step(key: Any, state: Any, action: Any) -> Any:
        return problem.step(key, state, action / GRAMS - 2)

    return replace(problem, step=step, action_space=gym.spaces.Box(0.0, 4 * GRAMS, (8,), np.float32))


def model(domain: str, instance: str) -> gym.Env:
    """Return an RDDL model of rddlrepository."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rddl.make(domain, instance)


def pendulum() -> gym.Env:
    """Return Gymnasium's pendulum with a torque in millinewton metres, ±2000; in newton metres it is ±2."""
    return gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), np.float32(-2000), np.float32(2000))


RDDL = {
    "total_timesteps": 16_000,
    "n_envs": 8,
    "n_steps": 100,
    "batch_size": 200,
    "policy": "independent",
    "hidden": (32, 32),
    "learning_rate": 2e-3,
    "gamma": 0.8,
    "normalize_obs": True,
    "normalize_reward": True,
    "check_network": False,
}
CASES = {
    "Reservoir_ippc2023/3": Case(
        partial(model, "Reservoir_ippc2023", "3"), "0 … 124 to 0 … 365", RDDL | {"learning_rate": 1e-3}
    ),
    "Pendulum-v1 in mN·m": Case(
        pendulum,
        "−2000 … 2000",
        {"total_timesteps": 102_400, "n_envs": 4, "n_steps": 1024, "learning_rate": 1e-3, "gamma": 0.9},
    ),
    "PowerGen_Continuous/0": Case(partial(model, "PowerGen_Continuous", "0"), "0 … 10", RDDL),
    "parcels in grams": Case(parcels(), "0 … 500", {"total_timesteps": 65_536, "learning_rate": 1e-3}),
}
"""Two models of rddlrepository, an environment of Gymnasium, and a JAX problem. The settings of the reservoirs
are one of six sets that were tried, with ``distribution="scale"``."""


def random_return(problem: Any, seed: int) -> float:
    """Return the mean return of uniformly random actions."""
    env, returns = to_gymnasium(problem), []
    env.action_space.seed(seed)
    for episode in range(EPISODES):
        env.reset(seed=1000 * seed + episode)
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    env.close()
    return float(np.mean(returns))


def trained(case: Case, distribution: str, seed: int) -> dict[str, float]:
    """Return the mean return before training and in the last rollout, both with exploration, and without it."""
    networks = {"policy": "joint", "critic": "target"}
    model = fx.FactoredPPO(case.problem, distribution=distribution, seed=seed, **networks, **case.settings)
    before = model.evaluate(EPISODES, deterministic=False, seed=seed)["return"]
    model.learn(progress_bar=False)
    last = float(model.history[-1]["rollout/ep_rew_mean"])
    final = model.evaluate(EPISODES, seed=seed)["return"]
    model.close()
    return {"before": before, "last rollout": last, "final policy": final}


def measured(name: str, case: Case) -> dict[str, Any]:
    """Return the returns for each seed: of random actions, and before and after training with each distribution."""
    results: dict[str, Any] = {"random": [random_return(case.problem, seed) for seed in range(SEEDS)]}
    for distribution in DISTRIBUTIONS:
        runs = [trained(case, distribution, seed) for seed in range(SEEDS)]
        results[distribution] = {when: [run[when] for run in runs] for when in runs[0]}
        print(name, distribution, results[distribution], file=sys.stderr, flush=True)
    return results


def main() -> None:
    names = [name for name in CASES if not sys.argv[1:] or any(name.startswith(word) for word in sys.argv[1:])]
    path = Path(__file__).with_suffix(".json")
    for name in names:
        results = measured(name, CASES[name])
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        path.write_text(json.dumps(found | {name: results}, indent=1) + "\n", encoding="utf-8")
    found = json.loads(path.read_text(encoding="utf-8"))
    table = Table("", "bounds", "", "before training", "last rollout (95 %)", "final policy (95 %)")
    for name, results in ((name, found[name]) for name in CASES if name in found):
        table.add_row(name, CASES[name].bounds, "random actions", str(normal_mean(results["random"])))
        for distribution in DISTRIBUTIONS:
            cells = (str(normal_mean(values)) for values in results[distribution].values())
            table.add_row("", "", distribution, *cells)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
