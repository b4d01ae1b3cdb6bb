"""Metrics of runs, thinned for charts, and learning curves of groups with intervals over seeds."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from ..folder import RETURN, STEPS, read_metrics
from ..statistics import RESAMPLES, iqm

MAX_POINTS = 240
"""Maximum number of points of a curve: about one for every two or three pixels of a chart."""
TARGETS = "rollout/ep_targets_mean"
SNR = "factor/gradient_snr"
VECTORS = (TARGETS, SNR, "target/explained_variance", "factor/explained_variance")
_WANTED = re.compile("|".join([RETURN, "rollout/episodes$", "time/time_elapsed", "network/", "variance/", *VECTORS]))
QUARTILES = ("smallest", "lower quartile", "median", "upper quartile", "largest")
"""Columns of a vector that is too long for the metrics, which store its quartiles instead."""


@dataclass(frozen=True)
class RunCurves:
    """The metrics of one run at T points of training; NaN where a point has no value."""

    steps: np.ndarray
    """Steps of all environments, ``(T,)``."""
    episodes: np.ndarray
    """Number of episodes that have ended, ``(T,)``."""
    seconds: np.ndarray
    """Seconds of training, without pauses between sessions, ``(T,)``."""
    returns: np.ndarray
    """Mean episode return, ``(T,)``."""
    vectors: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Metrics of each factor or target by name, ``(T, k)``."""
    last: Mapping[str, np.ndarray] = field(default_factory=dict)
    """The last values of the variance decomposition, if it was logged, ``(n,)``."""
    events: tuple[dict[str, Any], ...] = ()
    """Edges that an adaptive network added or removed: steps and labels."""
    initial: float = float("nan")
    """Mean return in the first update in which an episode had ended: that of the untrained policy."""
    updates: int = 0
    not_finite: int = 0
    """Number of NaN or infinite values, which are left out."""

    @property
    def final(self) -> float:
        """Mean return over the last tenth of training; NaN if no episode ended there."""
        last = self.returns[-max(1, len(self.returns) // 10) :]
        return float(last[np.isfinite(last)].mean()) if np.isfinite(last).any() else float("nan")


def read_curves(run: Path) -> RunCurves:
    """Read the metrics of a run, which may still be training; raises the same errors as `read_metrics`."""
    rows = read_metrics(run, _WANTED.match)
    steps = np.array([row[STEPS] for row in rows], float)
    episodes = np.cumsum([_number(row.get("rollout/episodes"), 0.0) for row in rows])
    seconds = _total_seconds([_number(row.get("time/time_elapsed")) for row in rows])
    returns = np.array([_number(row.get(RETURN)) for row in rows])
    not_finite = sum(RETURN in row and not np.isfinite(value) for row, value in zip(rows, returns, strict=True))
    vectors: dict[str, np.ndarray] = {}
    for name in VECTORS:
        columns = [_vector(row[name]) for row in rows if name in row]
        width = len(columns[0]) if columns else 0
        if width:
            table = np.full((len(rows), width), np.nan)
            places = [i for i, row in enumerate(rows) if name in row]
            for place, column in zip(places, columns, strict=True):
                if len(column) == width:
                    table[place] = column
            not_finite += int((~np.isfinite(table[places])).sum())
            vectors[name] = table
    last = {}
    for row in rows[-1:]:
        last = {name: _vector(value) for name, value in row.items() if name.startswith("variance/")}
    events = tuple(
        {"step": row[STEPS], "came": _labels(row, "came"), "went": _labels(row, "went")}
        for row in rows
        if "network/came" in row or "network/went" in row
    )
    edges = bucket_edges(len(rows))
    ends = edges[1:] - 1
    return RunCurves(
        steps=steps[ends],
        episodes=episodes[ends],
        seconds=seconds[ends],
        returns=_bucket_means(returns, edges),
        vectors={name: _bucket_means(table, edges) for name, table in vectors.items()},
        last=last,
        events=events,
        initial=next((float(x) for x in returns if np.isfinite(x)), float("nan")),
        updates=len(rows),
        not_finite=int(not_finite),
    )


def bucket_edges(length: int, most: int = MAX_POINTS) -> np.ndarray:
    """Return the bounds of at most `most` buckets of nearly equal size, which cover `length` rows.

    >>> bucket_edges(5, most=2).tolist()
    [0, 2, 5]
    """
    return np.unique(np.linspace(0, length, min(length, most) + 1).astype(int))


@dataclass(frozen=True)
class GroupCurves:
    """Runs that differ only in their seed, at the points that all of them have reached."""

    name: str
    steps: np.ndarray
    episodes: np.ndarray
    seconds: np.ndarray
    runs: np.ndarray
    """Mean episode return of each run, ``(seeds, T)``."""

    def as_json(self) -> dict[str, Any]:
        """Return the interquartile mean over seeds with its interval, and the individual runs."""
        centre, low, high = _intervals(self.runs)
        return {
            "name": self.name,
            "x": {axis: numbers(getattr(self, axis)) for axis in ("steps", "episodes", "seconds")},
            "y": numbers(centre),
            "low": numbers(low) if len(self.runs) > 1 else None,
            "high": numbers(high) if len(self.runs) > 1 else None,
            "runs": [numbers(run) for run in self.runs] if len(self.runs) > 1 else [],
        }


def group_curves(name: str, runs: Sequence[RunCurves]) -> GroupCurves | None:
    """Return the curves of a group; None if no run has a return."""
    runs = [run for run in runs if np.isfinite(run.returns).any()]
    if not runs:
        return None
    steps = max((run.steps for run in runs), key=len)
    steps = steps[steps <= min(run.steps[-1] for run in runs)]
    if not len(steps):  # one run ends before the first point of another
        steps = min((run.steps for run in runs), key=lambda each: each[-1])
    return GroupCurves(
        name,
        steps,
        np.mean([np.interp(steps, run.steps, run.episodes) for run in runs], axis=0),
        np.mean([np.interp(steps, run.steps, run.seconds) for run in runs], axis=0),
        np.stack([interpolate(steps, run.steps, run.returns) for run in runs]),
    )


def interpolate(at: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return a curve at other points, ignoring NaN in `y`; NaN before the first value."""
    finite = np.isfinite(y)
    if not finite.any():
        return np.full(len(at), np.nan)
    # On the left, np.interp would invent returns before the first episode has ended.
    return np.interp(at, x[finite], y[finite], left=np.nan)


def numbers(values: Any, digits: int = 6) -> list[float | None]:
    """Return numbers for JSON with few digits, and None for non-finite numbers.

    >>> numbers([1.23456789, float("nan")])
    [1.23457, None]
    """
    array = np.asarray(values, float)
    return [float(f"{x:.{digits}g}") if np.isfinite(x) else None for x in array.tolist()]


def _intervals(runs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the interquartile mean at each point and its interval, each ``(T,)``, from ``(seeds, T)``, as `iqm`
    does."""
    if len(runs) == 1:
        return runs[0], runs[0], runs[0]
    points = np.full((3, runs.shape[1]), np.nan)
    whole = np.isfinite(runs).all(axis=0)
    if whole.any():
        # One set of resamples is used for all points of the curve.
        picks = np.random.default_rng(0).choice(len(runs), (RESAMPLES, len(runs)))
        columns = runs[:, whole].T
        points[0, whole] = stats.trim_mean(columns, 0.25, axis=1)
        means = np.stack([stats.trim_mean(column[picks], 0.25, axis=1) for column in columns])
        points[1:, whole] = np.quantile(means, [0.025, 0.975], axis=1)
    for t in np.flatnonzero(~whole):
        values = runs[np.isfinite(runs[:, t]), t]
        if len(values):
            interval = iqm(values)
            points[:, t] = interval.mean, interval.low, interval.high
    return points[0], points[1], points[2]


def _bucket_means(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the mean of the finite values in each bucket, ``(T, ...)`` from ``(rows, ...)``; NaN if there are none."""
    if not len(values):
        return values
    finite = np.isfinite(values)
    sums = np.add.reduceat(np.where(finite, values, 0.0), edges[:-1], axis=0)
    counts = np.add.reduceat(finite.astype(float), edges[:-1], axis=0)
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def _total_seconds(elapsed: Sequence[float]) -> np.ndarray:
    """Return seconds since training began: the clock in the metrics restarts at 0 whenever a run is resumed."""
    total, before = 0.0, 0.0
    seconds = []
    for now in elapsed:
        now = before if not np.isfinite(now) else now
        total += now - before if now >= before else now
        before = now
        seconds.append(total)
    return np.array(seconds)


def _number(value: Any, default: float = float("nan")) -> float:
    """Return a number read from a file, or the default for anything else."""
    usable = type(value) in (int, float) and abs(value) < 1e300  # also excludes NaN
    return float(value) if usable else default


def _vector(value: Any) -> np.ndarray:
    """Return the numbers of a metric that is a list, or the quartiles of a long one."""
    if isinstance(value, dict):
        value = value.get("quartiles")
    return np.array([_number(x) for x in value]) if isinstance(value, list) else np.array([_number(value)])


def _labels(row: Mapping[str, Any], kind: str) -> list[str]:
    labels = row.get(f"network/{kind}", [])
    return [label for label in labels if isinstance(label, str)] if isinstance(labels, list) else []
