"""Learning curves of sweeps: table rows, and plots of means with bands over seeds."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from .parts import Arrays
from .sweep import MEASURES, Job
from .table import Table


def rows(job: Job, seed: int, result: Arrays) -> Iterator[dict[str, Any]]:
    """Yield one row for each record of each run; step 0 is the initial policy."""
    n = job.problem.n
    for r in range(job.seeds):
        bandit = job.problem.make(job.problem.draw([seed, r]))
        mean = np.zeros(n)
        first = bandit.gap(mean), MEASURES[job.measure](bandit, mean) if job.measure else bandit.gap(mean)
        for g, step_size in enumerate(job.step_sizes):
            head = {"method": job.method.label, "step_size": step_size, "seed": r}
            yield head | {"step": 0, "gap": float(first[0]), "measure": float(first[1])}
            for t, step in enumerate(result["step"]):
                gap, measure = (float(result[name][t, r, g]) for name in ("gap", "measure"))
                yield head | {"step": int(step), "gap": gap, "measure": measure}


def matrix(table: Table, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Return steps ``(T,)`` and values ``(seeds, T)`` of the curves of one method."""
    order = np.lexsort((table["step"], table["seed"]))
    seeds = len(np.unique(table["seed"]))
    return table["step"][order].reshape(seeds, -1)[0], table[column][order].reshape(seeds, -1)


def band(ax: Axes, step: np.ndarray, values: np.ndarray, label: str, colour: str, **options: Any) -> None:
    """Plot the mean over seeds with its standard error, up to the step at which the first run diverged."""
    alive = np.isfinite(values).all(axis=0)
    step, values = step[alive], values[:, alive]
    mean = values.mean(axis=0)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0 * mean
    ax.plot(step, mean, color=colour, label=label, **options)
    ax.fill_between(step, mean - error, mean + error, color=colour, alpha=0.25, linewidth=0)
