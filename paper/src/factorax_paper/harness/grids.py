"""Grids of dimension × step size: each cell is the Gamma mean of its runs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from factorax.runs.statistics import Interval

from . import plots
from .bandit_engine import BanditMethod
from .parts import Arrays
from .statistics import gamma_mean
from .sweep import Job, Search
from .table import Table, from_rows, where

DIMENSIONS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
STEP_SIZES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


ESTIMATORS = (BanditMethod("fpg"), BanditMethod("vpg"))


@dataclass(frozen=True)
class StepSizeGrid:
    """Sizes of a grid. The paper does not state its own; this one has its largest n and all its step sizes."""

    dimensions: tuple[int, ...] = DIMENSIONS
    step_sizes: tuple[float, ...] = STEP_SIZES
    seeds: int = 16
    steps: int = 200_000
    every: int = 2000
    norm: Literal[1, 2] = 1
    """p of the distance ‖a − c‖ₚ."""
    scale: float | None = None
    """A factor on all targets instead of 1/n; 1 leaves them undivided."""


def jobs(grid: StepSizeGrid, tolerance: float | None = None) -> list[Job]:
    """Return a search bandit without a penalty, one job for each estimator and dimension."""
    return [
        Job(
            problem=Search(n, norm=grid.norm, scale=grid.scale),
            method=method,
            step_sizes=grid.step_sizes,
            seeds=grid.seeds,
            steps=grid.steps,
            every=grid.every,
            tolerance=tolerance,
        )
        for method, n in product(ESTIMATORS, grid.dimensions)
    ]


def tabulate(jobs: Iterable[Job], results: list[Arrays]) -> Table:
    """Return a row for each run."""
    return from_rows(chain.from_iterable(rows(job, result) for job, result in zip(jobs, results, strict=True)))


def by_estimator(grid: StepSizeGrid) -> list[dict[str, Any]]:
    """Return the keys of all cells in the order of `draw`."""
    return [
        {"method": method.label, "n": n, "step_size": step_size}
        for method, n, step_size in product(ESTIMATORS, grid.dimensions, grid.step_sizes)
    ]


def rows(job: Job, result: Arrays) -> Iterator[dict[str, Any]]:
    """Yield one row per run."""
    for r in range(job.seeds):
        for g, step_size in enumerate(job.step_sizes):
            gap = float(result["gap"][-1, r, g])
            yield {
                "method": job.method.label,
                "n": job.problem.n,
                "step_size": step_size,
                "seed": r,
                "gap": gap,
                "diverged": int(not np.isfinite(gap)),
                "reached": int(result["reached"][r, g]),
            }


def cells(
    table: Table, keys: Iterable[dict[str, Any]], value: Callable[[Table], np.ndarray], confidence: float = 0.95
) -> list[dict[str, Any]]:
    """Return for each key its runs, the number that diverged, the number with a value, and the Gamma mean of these."""
    result = []
    for key in keys:
        runs = where(table, **key)
        values = value(runs)
        usable = values[np.isfinite(values)]
        entry = {**key, "runs": len(values), "diverged": int(runs["diverged"].sum()), "usable": len(usable)}
        entry["mean"] = vars(gamma_mean(usable, confidence)) if len(usable) else None
        result.append(entry)
    return result


def whole(cell: dict[str, Any]) -> Interval | None:
    """Return the mean of a cell if all its runs have a value: with missing ones it would be biased."""
    return Interval(**cell["mean"]) if cell["mean"] and cell["usable"] == cell["runs"] else None


def draw(
    cells: Sequence[dict[str, Any]],
    dimensions: Sequence[int],
    step_sizes: Sequence[float],
    *,
    note: Callable[[float], str],
    grey: Callable[[dict[str, Any]], str],
    label: str,
) -> tuple[Figure, Any]:
    """Return a heat map for each method, on one logarithmic colour scale; grey where runs are missing.

    `note` formats the mean of a cell, `grey` the text of a cell without one.
    """
    shape = len(dimensions), len(step_sizes)
    maps = {}
    for method in dict.fromkeys(cell["method"] for cell in cells):
        ours = [cell for cell in cells if cell["method"] == method]  # in the order of dimensions, then of step sizes
        means = [whole(cell) for cell in ours]
        values = np.array([mean.mean if mean else np.nan for mean in means]).reshape(shape)
        notes = [note(mean.mean) if mean else grey(cell) for mean, cell in zip(means, ours, strict=True)]
        maps[method] = values, np.array(notes).reshape(shape)
    norm = plots.log_norm(np.stack([values for values, _ in maps.values()]))
    return plots.heat_maps(maps, rows=dimensions, columns=step_sizes, norm=norm, cmap="viridis", label=label)
