"""Fig. 8: the number of steps to come within 0.1 of the optimum, by dimension and step size."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from factorax.runs.statistics import Interval

from ..harness import grids, plots
from ..harness.claims import Claim, verdict
from ..harness.experiment import Experiment
from ..harness.parts import Arrays
from ..harness.search_claims import GRID, SCALE, chosen, settled
from ..harness.sweep import Job, sweeps
from ..harness.table import Table

FAR = 0.5  # far fewer steps: less than half


@dataclass(frozen=True)
class Settings(grids.StepSizeGrid):
    """Sizes of the experiment; the grid is that of `search-stability`."""

    steps: int = 500_000
    """Maximum number of steps."""
    tolerance: float = 0.1
    """The gap to be reached."""


def jobs(settings: Settings) -> list[Job]:
    """Return one part for each estimator and dimension."""
    return grids.jobs(settings, settings.tolerance)


def tabulate(settings: Settings, seed: int, results: list[Arrays]) -> Table:
    """Return one row per run; ``reached`` is −1 if the limit came first."""
    return grids.tabulate(jobs(settings), results)


def _steps(runs: Table) -> np.ndarray:
    return np.where(runs["reached"] > 0, runs["reached"], np.inf)


def summarise(settings: Settings, table: Table) -> dict[str, Any]:
    """Return the Gamma mean of the number of steps in each cell, and the best step size for each n."""
    cells = grids.cells(table, grids.by_estimator(settings), _steps)
    return {"cells": cells, "best step sizes": best_step_sizes(settings, cells)}


def draw(settings: Settings, table: Table, summary: dict[str, Any]) -> Figure:
    """Return one heat map per estimator, on one logarithmic colour scale; grey where a run diverged or did not
    finish."""
    figure, bar = grids.draw(
        summary["cells"],
        settings.dimensions,
        settings.step_sizes,
        note=plots.short,
        grey=lambda cell: f"{cell['runs'] - cell['usable']}/{cell['runs']}",
        label="mean number of steps (log scale)",
    )
    plots.count_ticks(bar.ax.yaxis)
    figure.suptitle(
        f"Search bandit: steps to a gap of {settings.tolerance:g}, {settings.seeds} seeds per cell; "
        f"grey: how many of them did not get there within {settings.steps:,} steps",
        fontsize=10,
    )
    return figure


def best_step_sizes(settings: Settings, cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each n > 1 and each estimator the step size with the fewest steps, among those where all seeds
    arrive."""
    best = []
    for n in (n for n in settings.dimensions if n > 1):
        entry: dict[str, Any] = {"n": n}
        for method in ("FPG", "VPG"):
            ours = [c for c in cells if c["method"] == method and c["n"] == n and grids.whole(c)]
            fewest = min(ours, key=lambda c: c["mean"]["mean"], default=None)
            entry[method] = fewest and {"step_size": fewest["step_size"], "steps": fewest["mean"]}
        if entry["FPG"] and entry["VPG"]:
            entry["FPG / VPG"] = vars(Interval(**entry["FPG"]["steps"]) / Interval(**entry["VPG"]["steps"]))
        best.append(entry)
    return best


def claims(settings: Settings, summary: dict[str, Any]) -> list[Claim]:
    """Return the claims on the number of steps: at the same step size, and each at its best."""
    cells = {m: [c for c in summary["cells"] if c["method"] == m] for m in ("FPG", "VPG")}
    pairs = [(f, v) for f, v in zip(cells["FPG"], cells["VPG"], strict=True) if f["n"] > 1]
    both = [(Interval(**f["mean"]) / Interval(**v["mean"])) for f, v in pairs if grids.whole(f) and grids.whole(v)]
    ratios = [ratio.mean for ratio in both]
    only = {
        "FPG": sum(bool(grids.whole(f)) and not grids.whole(v) for f, v in pairs),
        "VPG": sum(bool(grids.whole(v)) and not grids.whole(f) for f, v in pairs),
    }
    fewer = sum(ratio.high < 1 for ratio in both)
    more = sum(ratio.low > 1 for ratio in both)
    spread = f"median ratio {np.median(ratios):.2g}, range {min(ratios):.2g} to {max(ratios):.2g}" if both else "none"
    paper = "the gap of 0.1, the limit of 500,000 steps, 16 seeds"
    rows = [
        Claim(
            claim="FPG needs far fewer steps than VPG to get near the optimum, at the same step size.",
            where="App. D, Fig. 8",
            paper="surface only",
            ours=(
                f"of {len(pairs)} cells with n > 1, all seeds arrive with only FPG in {only['FPG']}, with only VPG in "
                f"{only['VPG']}, with both in {len(both)}: there FPG / VPG has a {spread}, significantly below 1 in "
                f"{fewer}, above 1 in {more}"
            ),
            verdict=verdict(only["FPG"] > 0 and only["VPG"] == 0, more == 0, bool(both and np.median(ratios) < FAR)),
            note=(
                "Where both arrive at the same step size, the ratio approaches 1 as the step size falls: with little "
                "noise, both follow the mean gradient. The benefit of FPG is that large step sizes work."
            ),
            chosen_by=chosen(paper=paper, us=f"{GRID}, that half in the median cell counts as far fewer, {SCALE}"),
            would_settle="The paper's grid: the median is over cells, and most cells in which both arrive have small "
            "step sizes.",
        )
    ]
    return settled(rows + _at_best(settings, summary["best step sizes"], paper))


def _at_best(settings: Settings, best: list[dict[str, Any]], paper: str) -> list[Claim]:
    """Return the claim at the best step size for each; none if FPG never arrives."""
    arrived = [entry for entry in best if entry["FPG"]]
    if not arrived:
        return []
    ratios = {entry["n"]: Interval(**entry["FPG / VPG"]) for entry in best if "FPG / VPG" in entry}
    alone = [entry["n"] for entry in arrived if not entry["VPG"]]
    far = [ratio.high < FAR for ratio in ratios.values()] + [True] * len(alone)
    shown = "; ".join(f"n = {n}: {ratio}" for n, ratio in ratios.items())
    return [
        Claim(
            claim="FPG needs far fewer steps than VPG to get near the optimum, each at its best step size for each n.",
            where="App. D, Fig. 8",
            paper="surface only",
            ours=f"FPG / VPG: {shown or 'none'}"
            + (f"; with n = {', '.join(map(str, alone))} VPG arrives with none of the step sizes" if alone else ""),
            verdict=verdict(*far, len(arrived) == len(best)),
            note="The best step size is the one with the fewest steps on the same seeds, among those with which all "
            "seeds arrive.",
            chosen_by=chosen(paper=paper, us=f"{GRID}, that half counts as far fewer, {SCALE}"),
            would_settle=f"More seeds with n = {', '.join(str(n) for n, r in ratios.items() if r.high >= FAR)}: the "
            "interval of the ratio is not below one half.",
        )
    ]


parts = sweeps(jobs)
EXPERIMENT = Experiment.of(
    __name__,
    title="Steps to reach a gap of 0.1 over dimensions and step sizes",
    paper="Fig. 8",
    budgets={
        "quick": Settings(
            dimensions=(2, 10, 100), step_sizes=(0.001, 0.01, 0.1, 1.0), seeds=8, steps=20_000, every=1000
        ),
        "paper": Settings(),
    },
)
