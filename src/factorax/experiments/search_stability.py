"""Fig. 7: the optimality gap after a fixed number of steps, over dimensions and step sizes."""

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from ..runs import plots
from .harness import grids
from .harness.claims import Claim, verdict
from .harness.experiment import Experiment
from .harness.parts import Arrays, sweeps
from .harness.table import Table

BEGINNING = 2.5  # the expected gap of μ = 0: that of |c|, c uniform on (−5, 5)


@dataclass(frozen=True)
class Settings(grids.StepSizeGrid):
    """Sizes of the experiment."""

    converged: float = 0.1
    """A mean gap below it counts as converged; it is the tolerance of Fig. 8."""


jobs = grids.jobs


def tabulate(settings: Settings, seed: int, results: list[Arrays]) -> Table:
    """A row for each run."""
    table = grids.tabulate(jobs(settings), results)
    return {name: column for name, column in table.items() if name != "reached"}


def summarise(settings: Settings, table: Table) -> dict[str, Any]:
    """The Gamma mean of the gap in every cell."""
    return {"cells": grids.cells(table, grids.by_estimator(settings), lambda runs: runs["gap"])}


def draw(settings: Settings, table: Table, summary: dict[str, Any]) -> Figure:
    """A heat map for each estimator, on one logarithmic colour scale."""
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
        f"Search bandit after {settings.steps:,} steps, {settings.seeds} seeds a cell; grey: how many of them diverged",
        fontsize=10,
    )
    return figure


def claims(settings: Settings, summary: dict[str, Any]) -> list[Claim]:
    """Stable everywhere, and convergent everywhere."""
    cells = {m: [c for c in summary["cells"] if c["method"] == m] for m in ("FPG", "VPG")}
    unstable = {m: sum(c["diverged"] > 0 for c in cs) for m, cs in cells.items()}
    means = {m: [grids.whole(c) for c in cs] for m, cs in cells.items()}
    near = {m: sum(i is not None and i.high < settings.converged for i in ms) for m, ms in means.items()}
    n_cells = len(cells["FPG"])
    largest = max(settings.dimensions)
    learning = {
        m: sum(i is not None and i.high < BEGINNING for c, i in zip(cells[m], ms, strict=True) if c["n"] == largest)
        for m, ms in means.items()
    }
    slow = sum(c["step_size"] * settings.steps / c["n"] < 5 for c in cells["FPG"])
    beyond = sum(c["diverged"] > 0 for c in cells["FPG"] if c["n"] > 1)
    return [
        Claim(
            claim="FPG converges to the optimum for every dimension and step size.",
            where="App. D, Fig. 7",
            paper="surface only",
            ours=f"{n_cells - unstable['FPG']} of {n_cells} cells without a diverged run; mean gap below "
            f"{settings.converged:g} in {near['FPG']} (VPG: {n_cells - unstable['VPG']} and {near['VPG']})",
            verdict=verdict(beyond == 0, near["FPG"] == n_cells),
            note=(
                f"It is stable wherever it has something to leave out: {beyond} cells with n > 1 have a diverged run, "
                f"and with n = 1 FPG is VPG. But the mean moves by at most η/n a step, so that in {slow} cells it "
                f"cannot have "
                "crossed the 5 units that a centre may be away; in the others noise sets a floor, which grows as "
                "√(η/n)."
            ),
        ),
        Claim(
            claim="VPG is very sensitive to the step size, the more so the more actions there are.",
            where="App. D, Fig. 7",
            paper="surface only",
            ours=(
                f"VPG diverges in {unstable['VPG']} of {n_cells} cells (FPG in {unstable['FPG']}); at n = {largest} it "
                f"ends below its first gap for {learning['VPG']} of {len(settings.step_sizes)} step sizes (FPG's for "
                f"{learning['FPG']})"
            ),
            verdict=verdict(unstable["VPG"] > unstable["FPG"], learning["VPG"] < learning["FPG"]),
        ),
    ]


QUICK = Settings(dimensions=(1, 10, 100), step_sizes=(0.001, 0.01, 0.1, 1.0), seeds=8, steps=20_000, every=1000)
EXPERIMENT = Experiment(
    name="search-stability",
    title="Mean optimality gap over dimensions and step sizes",
    paper="Fig. 7",
    budgets={"quick": QUICK, "paper": Settings()},
    parts=sweeps(jobs),
    tabulate=tabulate,
    summarise=summarise,
    draw=draw,
    claims=claims,
)
