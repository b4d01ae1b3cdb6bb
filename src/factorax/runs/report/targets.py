"""Returns of the targets over training, their weights λ, and which of them improved or got worse."""

from typing import Any

import numpy as np

from .curves import QUARTILES, TARGETS, RunCurves, interpolated, numbers

_MOST_SERIES = 60


def targets_section(
    name: str, runs: list[RunCurves], labels: tuple[str, ...] | None, weights: np.ndarray | None
) -> dict[str, Any] | None:
    """Return the targets averaged over the runs of a group; None if there is one target or none was logged.

    - `labels`, `weights`: names of the targets and λ; None if the problem cannot be created here.
    """
    tables = [(run.steps, run.vectors[TARGETS]) for run in runs if TARGETS in run.vectors]
    tables = [(steps, table) for steps, table in tables if np.isfinite(table).any()]
    if not tables:
        return None
    width = tables[0][1].shape[1]
    tables = [(steps, table) for steps, table in tables if table.shape[1] == width]
    steps = max((steps for steps, _ in tables), key=len)
    steps = steps[steps <= min(each[-1] for each, _ in tables)]
    if width < 2 or not len(steps):
        return None
    each = [np.stack([interpolated(steps, x, column) for column in table.T], axis=1) for x, table in tables]
    filled = np.where(np.isfinite(each), each, 0.0).sum(axis=0)
    mean = filled / np.maximum(np.isfinite(each).sum(axis=0), 1)
    mean[~np.isfinite(each).any(axis=0)] = np.nan
    is_quartiles = width == len(QUARTILES) and labels is not None and len(labels) != width
    names = QUARTILES if is_quartiles or labels is None else labels
    if len(names) != width:
        names = tuple(f"target {j + 1}" for j in range(width))
    changes = [] if is_quartiles else _changes(names, mean, weights)
    section = {"name": name, "steps": numbers(steps), "changes": changes, "n_targets": len(labels or names)}
    shown = range(width)
    if width > _MOST_SERIES:  # those that changed most
        order = sorted(changes, key=lambda row: -abs(row["change"] or 0.0))[:_MOST_SERIES]
        shown = sorted(row["index"] for row in order)
    section["series"] = [{"name": names[j], "y": numbers(mean[:, j], 4)} for j in shown]
    return section


def _changes(names: tuple[str, ...], mean: np.ndarray, weights: np.ndarray | None) -> list[dict[str, Any]]:
    """Return the return of each target in the first and last tenth of training, and its effect on the objective."""
    ended = mean[np.isfinite(mean).any(axis=1)]
    tenth = max(1, len(ended) // 10)
    first, last = ended[:tenth].mean(axis=0), ended[-tenth:].mean(axis=0)
    lam = np.ones(len(names)) if weights is None or len(weights) != len(names) else weights
    columns = (numbers(x, 4) for x in (first, last, last - first, lam, lam * (last - first)))
    keys = ("first", "last", "change", "weight", "gain")
    return [
        {"index": j, "name": names[j]} | dict(zip(keys, row, strict=True))
        for j, row in enumerate(zip(*columns, strict=True))
    ]
