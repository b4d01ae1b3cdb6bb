"""Measure which edges an adaptive network keeps in a market of four assets, and its final returns.

    python -m benchmarks.adaptive_market                                 # all variants, two seeds, minutes of one core
    python -m benchmarks.adaptive_market adaptive copies --seeds 10

Settings are those of the experiment ``relatives``; the table is in paper/docs/relatives.md.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro
from factorax_paper.experiments.relatives import CASES
from factorax_paper.harness.side_by_side import Grid, initial_states, scores

from factorax.ppo import AdaptiveNetwork, Compiled, Learner
from factorax.ppo.adaptive import EdgeEstimates
from factorax.problems import find_problem

CASE = CASES["market"]
PROBLEM = find_problem(CASE.problem)
OWN = PROBLEM.network
EDGES = OWN.to_dense() > 0
KINDS = {
    "profit": EDGES & (np.arange(EDGES.shape[1]) < EDGES.shape[1] // 2),
    "penalty": EDGES & (np.arange(EDGES.shape[1]) >= EDGES.shape[1] // 2),
    "others": ~EDGES,
}
"""Kinds of edges: to the quote's own profit, to its own inventory penalty, and to targets of other assets."""
_COMPLETE = AdaptiveNetwork.from_complete(OWN)
VARIANTS = {
    "adaptive": _COMPLETE,
    "copies": dataclasses.replace(_COMPLETE, copies=len(EDGES)),
    "window": dataclasses.replace(_COMPLETE, window=40),
    "margin": dataclasses.replace(_COMPLETE, margin=80.0),
    "own": AdaptiveNetwork(OWN),
}


def edges_of(state: Any) -> dict[str, dict[str, list[float]]]:
    """Return for each kind of edge and run the fraction that is kept, and (bias² − noise) / noise of the median edge
    and of the sum over all quotes."""
    estimates: EdgeEstimates = jax.tree.map(np.asarray, state.network)
    total = estimates.total[:, None, None]
    noise = estimates.noise / total * (estimates.squares / estimates.total**2)[:, None, None]
    gradient = estimates.gradient / total[..., None]
    ratio = (gradient**2).sum(axis=2) / noise - 1
    kinds = {}
    for name, edges in KINDS.items():
        summed = np.einsum("rcpj,cj->rp", gradient, edges.astype(float))
        kinds[name] = {
            "kept": (estimates.matrix > 0)[:, edges].mean(axis=1).tolist(),
            "median": np.median(ratio[:, edges], axis=1).tolist(),
            "sum": ((summed**2).sum(axis=1) / (noise * edges).sum(axis=(1, 2)) - 1).tolist(),
        }
    return kinds


def study(variant: str, rates: tuple[float, ...], seeds: int, rollouts: int) -> dict[str, Any]:
    """Train one variant with all step sizes and seeds at once; return its scores, and its edges after some rollouts."""
    settings = CASE.settings_of("adaptive")
    grid = Grid(CASE.problem, "adaptive", CASE.steps, settings, rates, (0.0,), first=0, tuning=seeds, seeds=0)
    learner = Learner.of(PROBLEM, VARIANTS[variant], grid.config)
    rows = [(rate, seed) for rate in rates for seed in range(seeds)]
    rate, seed = (np.array(column) for column in zip(*rows, strict=True))
    state, compiled = initial_states(learner, rate, np.zeros(len(rows)), seed), Compiled(learner)
    history, edges = [], {}
    for i in range(1, rollouts + 1):
        state, metrics = compiled.updates(state)
        history.append([np.asarray(metrics[f"rollout/{name}"])[0] for name in ("ep_rew_mean", "episodes")])
        if i in (2, 10, 20, 40, 70, 100):
            edges[i] = edges_of(state)
    returns, episodes = np.array(history).swapaxes(0, 1)
    return {"rows": rows, "scores": scores(returns, episodes)[0].tolist(), "edges": edges}


def main(
    variants: tyro.conf.Positional[tuple[str, ...]] = tuple(VARIANTS),
    /,
    rates: tuple[float, ...] = (0.003, 0.01),
    seeds: int = 2,
    rollouts: int = 100,
    out: Path = Path("adaptive_market.json"),
) -> None:
    """Train all variants, print their scores and write a file."""
    results = {}
    for variant in variants:
        results[variant] = result = study(variant, rates, seeds, rollouts)
        print(variant, [f"{r:g}: {s:.1f}" for (r, _), s in zip(result["rows"], result["scores"], strict=True)])
        out.write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
