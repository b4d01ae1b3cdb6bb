"""Train one method on one market in its own process: tune its learning rate, then train all seeds at once.

    python -m factorax_paper.harness.market_runs '{"problem": "market:10", "network": "minimum", …}' OUT.npz

Every learning rate is tried with the same seeds, which are not reported. The reported seeds are trained with the rate
whose final quotes have the highest value.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from factorax._files import write_whole
from factorax.ppo import FactoredPPO, find_network
from factorax.ppo.presets import settings_with
from factorax.problems import find_problem

from ..market import Market, value_of_quotes
from .parts import Arrays
from .side_by_side import initial_states

EPISODES = 4000
"""Number of episodes in which policies and the closed form are compared if there is no exact value."""


@dataclass(frozen=True)
class MarketRuns:
    """The runs of a method on a market."""

    problem: str
    network: str
    settings: dict[str, Any]
    """Settings beyond those of the preset ``"market"``, by the names of `Config`."""
    updates: int
    rates: tuple[float, ...]
    first: int
    """The first seed. Tuning seeds come before reported seeds."""
    tuning: int
    seeds: int

    @property
    def model(self) -> FactoredPPO:
        """The untrained model of all runs."""
        problem = find_problem(self.problem)
        settings = settings_with("market", self.settings)
        settings |= {"total_timesteps": self.updates * settings["n_envs"] * settings["n_steps"]}
        return FactoredPPO(problem, find_network(problem, self.network), **settings)


def train(runs: MarketRuns) -> Arrays:
    """Return ``steps`` and ``returns`` of the reported seeds, ``(seeds, updates)``, and their final ``value``; their
    learning ``rate``; and ``rates`` with ``tuned``, the mean value of the tuning seeds."""
    model = runs.model
    trials = [(rate, runs.first + i) for rate in runs.rates for i in range(runs.tuning)]
    largest, done = max(len(trials), runs.seeds), 0

    def trained(rows: Sequence[tuple[float, int]]) -> tuple[np.ndarray, np.ndarray]:
        """Return the returns of all updates, ``(rows, updates)``, and final values; one program trains any number of
        rows."""
        nonlocal done
        # As many rows in both calls: another number would be another program.
        padded = [rows[i % len(rows)] for i in range(largest)]
        rate, seed = (np.array(column) for column in zip(*padded, strict=True))
        states, returns, left = initial_states(model.learner, rate, np.zeros(largest), seed), [], runs.updates
        while left:
            count = min(left, model.compiled.max_updates)
            states, metrics = model.compiled.updates(states, count)
            returns.append(metrics["rollout/ep_rew_mean"][:count])
            done, left = done + count, left - count
            print(f"{min(0.5 * done / runs.updates, 0.9999):.4f}", flush=True)
        values = [value_of(model.with_state(states, i)) for i in range(len(rows))]
        return np.concatenate(returns).T[: len(rows)], np.array(values)

    _, values = trained(trials)
    # A run that diverged has no value, and must not be the best.
    values = np.where(np.isfinite(values), values, -np.inf).reshape(len(runs.rates), runs.tuning)
    tuned = values.mean(axis=1)
    best = runs.rates[int(tuned.argmax())]
    returns, value = trained([(best, runs.first + runs.tuning + i) for i in range(runs.seeds)])
    steps = np.arange(1, runs.updates + 1) * model.config.rollout_steps
    return {
        "steps": np.tile(steps, (runs.seeds, 1)),
        "returns": returns,
        "value": value,
        "rate": np.array(best),
        "rates": np.array(runs.rates),
        "tuned": tuned,
    }


def value_of(model: Any) -> float:
    """Return the value of the most probable quotes of a trained model; exact if assets are independent."""
    problem: Market = model.spec.problem
    market = problem.model
    if not market.is_independent:  # dynamic programming over the inventories of all assets is out of reach
        return model.evaluate(EPISODES)["return"]
    # A shared policy quotes the same on all assets, up to rounding: each table of quotes is evaluated once.
    quotes, values = np.round(learned_quotes(model), 5), {}
    parameters = np.stack([market.intensity, market.decay, np.diag(market.penalty), market.terminal_penalty], axis=1)
    total = 0.0
    for i in range(market.n):
        same = quotes[..., i, :].tobytes(), parameters[i].tobytes()
        if same not in values:
            values[same] = value_of_quotes(market, quotes[..., i, :], asset=i)
        total += values[same]
    return total


def learned_quotes(model: Any) -> np.ndarray:
    """Return the most probable quotes if all assets have the same inventory, ``(horizon, 2Q + 1, n, 2)``.

    A policy that observes only an asset's own inventory returns the same quotes for any inventories of the other
    assets.
    """
    market = model.spec.problem.model
    left = 1 - np.arange(market.horizon) / market.horizon
    share = market.inventories / market.largest_inventory
    obs = np.empty((len(left), len(share), 1 + market.n), np.float32)
    obs[..., 0], obs[..., 1:] = left[:, None], share[:, None]
    actions, _ = model.predict(obs.reshape(-1, 1 + market.n), deterministic=True)
    return np.asarray(actions).reshape(len(left), len(share), market.n, 2)


def main(arguments: list[str]) -> None:
    """Train the runs that the first argument describes, and write the results to the file in the second."""
    described = json.loads(arguments[0])
    runs = MarketRuns(**described | {"rates": tuple(described["rates"])})
    result = train(runs)
    write_whole(Path(arguments[1]), lambda file: np.savez(file, allow_pickle=False, **result))


if __name__ == "__main__":
    main(sys.argv[1:])
