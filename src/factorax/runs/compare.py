"""Comparing runs: learning curves, interquartile means over seeds, and how likely one method is to beat another."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import cycle, permutations
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..learning.config import Config
from ..structure.labels import counted
from . import plots
from .folder import read_config, read_metrics
from .statistics import iqm, probability_of_improvement


@dataclass(frozen=True)
class Group:
    """Learning curves of runs that differ only in their seed."""

    name: str
    steps: np.ndarray
    """``(T,)``"""
    returns: np.ndarray
    """Mean episode return, ``(seeds, T)``."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Problem, network and settings that the runs have in common."""
    seeds: tuple[int, ...] = ()
    folders: tuple[Path, ...] = ()

    @property
    def final(self) -> np.ndarray:
        """Mean return of each seed over the last tenth of training, ``(seeds,)``."""
        return self.returns[:, -max(1, self.returns.shape[1] // 10) :].mean(axis=1)


def group_runs(folders: Sequence[Path]) -> list[Group]:
    """Groups runs by their settings; a group is named by the problem and the settings in which the groups differ."""
    if not folders:
        raise ValueError("runs: got none, want the folders of one or more runs")
    configs = [read_config(Path(folder)) for folder in folders]
    kept = ("problem", "network")
    settings_of = [c["config"] for c in configs]
    flat = [
        {k: c[k] for k in kept} | {k: v for k, v in settings.items() if k != "seed"}
        for c, settings in zip(configs, settings_of, strict=True)
    ]
    differing = [key for key in flat[0] if any(f.get(key) != flat[0].get(key) for f in flat)]
    members: dict[str, list[int]] = {}
    for i, settings in enumerate(flat):
        name = ", ".join(f"{settings[key]}" if key == "problem" else f"{key} {settings[key]}" for key in differing)
        members.setdefault(name or str(flat[0]["problem"]), []).append(i)
    return [
        replace(
            _group(name, [Path(folders[i]) for i in numbers]),
            settings=flat[numbers[0]],
            seeds=tuple(int(settings_of[i]["seed"]) for i in numbers),
        )
        for name, numbers in members.items()
    ]


@cache
def default_settings() -> dict[str, Any]:
    """Returns the default of every setting, as it stands in a ``config.json``."""
    return json.loads(json.dumps(dataclasses.asdict(Config())))


def _group(name: str, folders: list[Path]) -> Group:
    curves = []
    for folder in folders:
        rows = [row for row in read_metrics(folder) if "rollout/ep_rew_mean" in row]
        if not rows:
            raise ValueError(f"{folder}: no episode has ended yet; train for longer")
        curves.append((np.array([r["time/total_timesteps"] for r in rows]), [r["rollout/ep_rew_mean"] for r in rows]))
    steps = max((c[0] for c in curves), key=len)
    end = min(c[0][-1] for c in curves)
    steps = steps[steps <= end]
    returns = np.stack([np.interp(steps, x, y) for x, y in curves])
    return Group(name=name, steps=steps, returns=returns, folders=tuple(folders))


def compare_groups(groups: Sequence[Group]) -> dict[str, Any]:
    """Returns interquartile means of the final returns, and for each ordered pair the probability of improvement."""
    return {
        "final": {g.name: vars(iqm(g.final)) | {"seeds": len(g.final)} for g in groups},
        "improvement": {
            f"{a.name} > {b.name}": vars(probability_of_improvement(a.final, b.final))
            for a, b in permutations(groups, 2)
        },
    }


def draw_curves(groups: Sequence[Group], colours: Sequence[str] = plots.PALETTE) -> Figure:
    """Draws learning curves: the interquartile mean over seeds, and its interval as a band."""
    figure, (ax,) = plots.canvas(width=8.0)
    for g, colour in zip(groups, cycle(colours), strict=False):
        points = [iqm(column) for column in g.returns.T]
        ax.plot(g.steps, [p.mean for p in points], color=colour, label=f"{g.name} ({counted(len(g.returns), 'seed')})")
        if len(g.returns) > 1:
            low, high = [p.low for p in points], [p.high for p in points]
            ax.fill_between(g.steps, low, high, color=colour, alpha=0.2, linewidth=0)
    ax.set(xlabel="steps of all environments", ylabel="episode return, interquartile mean")
    plots.count_ticks(ax.xaxis)
    plots.legend_beside(ax)
    return figure
