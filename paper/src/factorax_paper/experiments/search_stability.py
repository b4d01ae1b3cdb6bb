"""Fig. 7: the optimality gap after a fixed number of steps, by dimension and step size."""

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from ..harness import grids, plots
from ..harness.ball import radius
from ..harness.claims import Claim, verdict
from ..harness.experiment import Experiment
from ..harness.parts import Arrays
from ..harness.search_claims import DIVERGENCE, GRID, SCALE, chosen, settled
from ..harness.sweep import sweeps
from ..harness.table import Table

BEGINNING = 2.5  # the expected gap of μ = 0: that of |c|, c uniform on (−5, 5)
FARTHEST = 5.0  # the largest |c|
RELAXED = 10.0  # 8 times the n/(2φ(0) η) steps in which a deviation falls to 1/e, in units of n/η
SMALL = 0.25  # the radius up to which the ball is described by the slope at the optimum


@dataclass(frozen=True)
class Settings(grids.StepSizeGrid):
    """Sizes of the experiment."""

    converged: float = 0.1
    """Mean gap below which a run counts as converged: the tolerance of Fig. 8."""


jobs = grids.jobs


def tabulate(settings: Settings, seed: int, results: list[Arrays]) -> Table:
    """Return a row for each run."""
    table = grids.tabulate(jobs(settings), results)
    return {name: column for name, column in table.items() if name != "reached"}


def summarise(settings: Settings, table: Table) -> dict[str, Any]:
    """Return the Gamma mean of the gap in each cell."""
    return {"cells": grids.cells(table, grids.by_estimator(settings), lambda runs: runs["gap"])}


def draw(settings: Settings, table: Table, summary: dict[str, Any]) -> Figure:
    """Return a heat map for each estimator, on one logarithmic colour scale."""
    figure, bar = grids.draw(
        summary["cells"],
        settings.dimensions,
        settings.step_sizes,
        note=plots.short,
        grey=lambda cell: f"{cell['diverged']}/{cell['runs']}",
        label="mean optimality gap (log scale)",
    )
    plots.plain_log_ticks(bar.ax.yaxis)
    figure.suptitle(
        f"Search bandit after {settings.steps:,} steps, {settings.seeds} seeds per cell; grey: how many diverged",
        fontsize=10,
    )
    return figure


def _reached(settings: Settings, cell: dict[str, Any], distance: float) -> bool:
    """Return whether the mean can have moved this far: it moves by at most η/n per step on average."""
    return cell["step_size"] * settings.steps / cell["n"] >= distance


def claims(settings: Settings, summary: dict[str, Any]) -> list[Claim]:
    """Return the claims on stability, convergence and the stationary ball."""
    cells = {m: [c for c in summary["cells"] if c["method"] == m] for m in ("FPG", "VPG")}
    unstable = {m: sum(c["diverged"] > 0 for c in cs) for m, cs in cells.items()}
    means = {m: [grids.whole(c) for c in cs] for m, cs in cells.items()}
    n_cells = len(cells["FPG"])
    within = [_reached(settings, c, FARTHEST) for c in cells["FPG"]]
    near = {
        m: sum(ok and i is not None and i.high < settings.converged for ok, i in zip(within, ms, strict=True))
        for m, ms in means.items()
    }
    wide = sum(
        ok
        and (i is None or i.high >= settings.converged)
        and radius("FPG", c["n"], c["step_size"]) > settings.converged
        for ok, c, i in zip(within, cells["FPG"], means["FPG"], strict=True)
    )
    largest = max(settings.dimensions)
    learning = {
        m: sum(i is not None and i.high < BEGINNING for c, i in zip(cells[m], ms, strict=True) if c["n"] == largest)
        for m, ms in means.items()
    }
    beyond = sum(c["diverged"] > 0 for c in cells["FPG"] if c["n"] > 1)
    where, budget = "App. D, Fig. 7", "number of steps, 16 seeds"
    rows = [
        Claim(
            claim="FPG is stable for every dimension and step size.",
            where=where,
            paper="surface only",
            ours=f"no run diverges in {n_cells - unstable['FPG']} of {n_cells} cells (VPG: in "
            f"{n_cells - unstable['VPG']}); of the cells with n > 1, {beyond} have a diverged run of FPG",
            verdict=verdict(unstable["FPG"] == 0, beyond == 0),
            note="With n = 1 there is nothing to leave out, and FPG is VPG.",
            chosen_by=chosen(paper=budget, us=f"{GRID}, {DIVERGENCE}, {SCALE}"),
            would_settle="The paper's grid: whether it has n = 1 with a step size of 1.",
        ),
        Claim(
            claim="FPG converges to the optimum for every dimension and step size with which the mean can reach it.",
            where=where,
            paper="surface only; no threshold",
            ours=f"in {sum(within)} of {n_cells} cells the mean can cross {FARTHEST:g} units in {settings.steps:,} "
            f"steps; FPG's mean gap is below {settings.converged:g} in {near['FPG']} of these (VPG's in {near['VPG']})",
            verdict=verdict(near["FPG"] > near["VPG"], near["FPG"] == sum(within)),
            note=f"The mean moves by at most η/n per step on average, and a centre is up to {FARTHEST:g} units away. "
            f"In {wide} of the {sum(within) - near['FPG']} others the ball in which FPG with a fixed step size stays "
            f"has a radius above {settings.converged:g} by its closed form.",
            chosen_by=chosen(
                paper=budget, us=f"{GRID}, the threshold of {settings.converged:g} (the tolerance of Fig. 8), {SCALE}"
            ),
            would_settle="The paper's grid, and the gap below which it calls a run converged.",
        ),
        Claim(
            claim="VPG is very sensitive to the step size, and more so with more actions.",
            where=where,
            paper="surface only",
            ours=(
                f"VPG diverges in {unstable['VPG']} of {n_cells} cells (FPG in {unstable['FPG']}); at n = {largest} it "
                f"ends below its first gap for {learning['VPG']} of {len(settings.step_sizes)} step sizes (FPG's for "
                f"{learning['FPG']})"
            ),
            verdict=verdict(unstable["VPG"] > unstable["FPG"], learning["VPG"] < learning["FPG"]),
            chosen_by=chosen(paper=budget, us=f"{GRID}, {DIVERGENCE}, {SCALE}"),
        ),
    ]
    return settled(rows + _ball(settings, cells))


def _ball(settings: Settings, cells: dict[str, list[dict[str, Any]]]) -> list[Claim]:
    """Return the ball's radius under both estimators, in cells where both are stationary; no row if there are none."""
    ratios, predicted, shares = [], [], []
    for fpg, vpg in zip(cells["FPG"], cells["VPG"], strict=True):
        n, size = fpg["n"], fpg["step_size"]
        wide, narrow = grids.whole(vpg), grids.whole(fpg)
        at_rest = radius("VPG", n, size) <= SMALL and _reached(settings, fpg, FARTHEST + RELAXED)
        if n == 1 or not at_rest or wide is None or narrow is None:
            continue
        ratios.append(wide / narrow)
        predicted.append(radius("VPG", n, size) / radius("FPG", n, size))
        shares += [wide.mean / radius("VPG", n, size), narrow.mean / radius("FPG", n, size)]
    if not ratios:
        return []
    larger, times = [r.low > 1 for r in ratios], [r.mean for r in ratios]
    fit = [r.mean / p for r, p in zip(ratios, predicted, strict=True)]
    return [
        Claim(
            claim="With a fixed step size, the policy settles in a ball around the optimum whose radius grows with "
            "the variance of the estimator.",
            where="Sec. 5.2",
            paper="posited, to explain Fig. 5",
            ours=f"in {len(ratios)} cells with n > 1 in which both have settled, VPG's mean gap is significantly "
            f"above FPG's in {sum(larger)}, {min(times):.2g} to {max(times):.2g} times as large; that is "
            f"{min(fit):.2f} to {max(fit):.2f} of √(variance of VPG / variance of FPG), and the gaps are "
            f"{min(shares):.2f} to {max(shares):.2f} of the closed form",
            verdict=verdict(*larger),
            note="To first order the radius is √(2/π) √(v η / (4φ(0) n)), v being the variance of n times an update: "
            "it grows with the square root of step size times variance, not with the variance.",
            chosen_by=chosen(
                us=f"{GRID}, which cells count as settled (η times steps is at least {FARTHEST + RELAXED:g} n, and "
                f"the closed form of VPG at most {SMALL:g}; the latter after we had seen the data)"
            ),
            would_settle=f"More seeds: in {len(larger) - sum(larger)} cells the interval of the ratio includes 1.",
        )
    ]


QUICK = Settings(dimensions=(1, 10, 100), step_sizes=(0.001, 0.01, 0.1, 1.0), seeds=8, steps=20_000, every=1000)
parts = sweeps(jobs)
EXPERIMENT = Experiment.of(
    __name__,
    title="Mean optimality gap over dimensions and step sizes",
    paper="Fig. 7",
    budgets={"quick": QUICK, "paper": Settings()},
)
