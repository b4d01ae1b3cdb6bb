"""Comparing runs: learning curves, interquartile means over seeds, and how likely one method is to beat another."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, permutations
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from ..experiments import figures
from ..experiments.statistics import Interval
from . import runs

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed alone."""

    name: str
    steps: np.ndarray
    """``(T,)``"""
    returns: np.ndarray
    """Mean episode return, ``(seeds, T)``."""

    @property
    def final(self) -> np.ndarray:
        """The return of every seed over the last tenth of training, ``(seeds,)``."""
        return self.returns[:, -max(1, self.returns.shape[1] // 10) :].mean(axis=1)


def group(folders: Sequence[Path]) -> list[Group]:
    """Runs by their settings; a group is named by the problem and the settings in which the groups differ."""
    if not folders:
        raise ValueError("runs: got none, want the folders of one or more")
    configs = [runs.read_config(Path(folder)) for folder in folders]
    kept = ("problem", "network")
    flat = [{k: c[k] for k in kept} | {k: v for k, v in c["config"].items() if k != "seed"} for c in configs]
    differing = [key for key in flat[0] if any(f.get(key) != flat[0].get(key) for f in flat)]
    members: dict[str, list[Path]] = {}
    for folder, settings in zip(folders, flat, strict=True):
        name = ", ".join(f"{settings[key]}" if key == "problem" else f"{key} {settings[key]}" for key in differing)
        members.setdefault(name or str(flat[0]["problem"]), []).append(Path(folder))
    return [_group(name, paths) for name, paths in members.items()]


def _group(name: str, folders: list[Path]) -> Group:
    curves = []
    for folder in folders:
        rows = [row for row in runs.metrics(folder) if "rollout/ep_rew_mean" in row]
        if not rows:
            raise ValueError(f"{folder}: no episode has ended yet; train for longer")
        curves.append((np.array([r["time/total_timesteps"] for r in rows]), [r["rollout/ep_rew_mean"] for r in rows]))
    steps = max((c[0] for c in curves), key=len)
    end = min(c[0][-1] for c in curves)
    steps = steps[steps <= end]
    return Group(name, steps, np.stack([np.interp(steps, x, y) for x, y in curves]))


def interquartile_mean(x: np.ndarray) -> float:
    """The mean of the middle half."""
    return float(stats.trim_mean(x, 0.25))


def iqm(samples: Any, confidence: float = 0.95, seed: int = 0) -> Interval:
    """Interquartile mean with a percentile-bootstrap interval (Agarwal et al., 2021)."""
    x = np.asarray(samples, float)
    rng = np.random.default_rng(seed)
    drawn = rng.choice(x, (2000, len(x)))
    boot = stats.trim_mean(drawn, 0.25, axis=1)
    low, high = np.quantile(boot, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(interquartile_mean(x), float(low), float(high))


def probability_of_improvement(a: Any, b: Any, confidence: float = 0.95, seed: int = 0) -> Interval:
    """P(a > b) over pairs of seeds, ties counting half, with a percentile-bootstrap interval.

    >>> probability_of_improvement([2.0, 3.0], [0.0, 1.0]).mean
    1.0
    """
    a, b = np.asarray(a, float), np.asarray(b, float)

    def wins(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return (np.sign(a[..., :, None] - b[..., None, :]) / 2 + 0.5).mean(axis=(-2, -1))

    rng = np.random.default_rng(seed)
    boot = wins(rng.choice(a, (2000, len(a))), rng.choice(b, (2000, len(b))))
    low, high = np.quantile(boot, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(wins(a, b)), float(low), float(high))


def compare(groups: Sequence[Group]) -> dict[str, Any]:
    """Interquartile means of the final returns, and for every ordered pair the probability of improvement."""
    return {
        "final": {g.name: vars(iqm(g.final)) | {"seeds": len(g.final)} for g in groups},
        "improvement": {
            f"{a.name} > {b.name}": vars(probability_of_improvement(a.final, b.final))
            for a, b in permutations(groups, 2)
        },
    }


def draw(groups: Sequence[Group], colours: Sequence[str] = PALETTE) -> Figure:
    """Learning curves: the interquartile mean over seeds, and its interval as a band."""
    figure, (ax,) = figures.canvas(width=8.0)
    for g, colour in zip(groups, cycle(colours), strict=False):
        points = [iqm(column) for column in g.returns.T]
        ax.plot(g.steps, [p.mean for p in points], color=colour, label=f"{g.name} ({len(g.returns)} seeds)")
        if len(g.returns) > 1:
            low, high = [p.low for p in points], [p.high for p in points]
            ax.fill_between(g.steps, low, high, color=colour, alpha=0.2, linewidth=0)
    ax.set(xlabel="steps of all environments", ylabel="episode return, interquartile mean")
    figures.count_ticks(ax.xaxis)
    figures.legend_beside(ax)
    return figure
