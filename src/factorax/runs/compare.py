"""Comparison of runs: learning curves, interquartile means over seeds, and probabilities of improvement."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations, cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import is_color_like
from matplotlib.figure import Figure

from .._checks import check_different, check_type, checked, listed, path_of, real_array
from .._text import counted, shown
from ..ppo.config import Config
from . import plots
from .folder import RETURN, STEPS, read_config, read_evaluation, read_metrics, settings_as_json
from .statistics import Interval, interquartile_mean, iqm, probability_of_improvement

MAX_NAME = 120


@dataclass(frozen=True)
class Group:
    """Learning curves of runs that differ only in their seed."""

    name: str
    steps: np.ndarray
    """Environment steps, ``(T,)``."""
    returns: np.ndarray
    """Mean episode return, ``(seeds, T)``."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Problem, network and settings common to the runs."""
    seeds: tuple[int, ...] = ()
    folders: tuple[Path, ...] = ()
    evaluations: tuple[float, ...] = ()
    """Mean return of the final policy of each run in its evaluation; empty if a run was not evaluated."""

    def __post_init__(self) -> None:
        checked("name", self.name, str)
        steps, returns = real_array("steps", self.steps), real_array("returns", self.returns)
        if steps.ndim != 1 or not len(steps) or (np.diff(steps) < 0).any():
            raise ValueError(f"steps: got {shown(self.steps)}, shape {steps.shape}, want non-decreasing numbers")
        if returns.ndim != 2 or not len(returns) or returns.shape[1:] != steps.shape:
            raise ValueError(
                f"returns: got shape {returns.shape}, want (runs, {len(steps)}), one column per entry of steps"
            )
        check_type("settings", self.settings, Mapping, "a dictionary")
        for name, kind in (("seeds", int), ("folders", Path), ("evaluations", float)):
            values = listed(name, getattr(self, name), "one per run, or none")
            if values and (len(values) != len(returns) or not all(isinstance(each, kind) for each in values)):
                raise ValueError(f"{name}: got {len(values)}, {shown(values)}, want {len(returns)}, one per run")

    @property
    def final(self) -> np.ndarray:
        """Mean return of each seed over the last tenth of training, ``(seeds,)``."""
        return self.returns[:, -max(1, self.returns.shape[1] // 10) :].mean(axis=1)


def group_runs(folders: Sequence[Path]) -> list[Group]:
    """Group runs by their settings, and name each group by the problem and the settings in which groups differ."""
    folders = [path_of("folders", each, "folders of runs") for each in listed("folders", folders, "folders of runs")]
    if not folders:
        raise ValueError("folders: got an empty list, want the folders of one or more runs")
    check_different("folders", [str(each) for each in folders])
    configs = [read_config(Path(folder)) for folder in folders]
    members, settings = name_groups(configs)
    return [
        replace(
            _group(name, [Path(folders[i]) for i in indices]),
            settings=settings[indices[0]],
            seeds=tuple(int(configs[i]["config"]["seed"]) for i in indices),
        )
        for name, indices in members.items()
    ]


def name_groups(configs: Sequence[Mapping[str, Any]]) -> tuple[dict[str, list[int]], list[dict[str, Any]]]:
    """Return the indices of the runs of each group by name, and the settings of each run without its seed.

    - `configs`: the result of `read_config` for each run.
    """
    settings = [
        {key: each[key] for key in ("problem", "network")} | {k: v for k, v in each["config"].items() if k != "seed"}
        for each in configs
    ]
    first = settings[0]
    differing = [key for key in first if any(each.get(key) != first.get(key) for each in settings)]
    members: dict[str, list[int]] = {}
    for i, each in enumerate(settings):
        name = ", ".join(f"{each[key]}" if key == "problem" else f"{key} {each[key]}" for key in differing)
        members.setdefault(name or str(first["problem"]), []).append(i)
    # Different names may agree once they are shortened, and no group may replace another.
    short: dict[str, list[int]] = {}
    for name, indices in members.items():
        label, count = short_name(name), 1
        while label in short:
            count += 1
            label = f"{short_name(name)} ({count})"
        short[label] = indices
    return short, settings


def short_name(name: str) -> str:
    """Return a name as it is shown, without the middle of a very long one.

    >>> short_name("chain:8"), len(short_name("chain:" + 900_000 * "8"))
    ('chain:8', 120)
    """
    # Names come from files, and Matplotlib needs a minute to draw a million characters.
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 21]}…{name[-20:]}"


@cache
def default_settings() -> dict[str, Any]:
    """Return the default of each setting, as stored in ``config.json``."""
    return settings_as_json(Config())


def _group(name: str, folders: list[Path]) -> Group:
    curves, evaluations = [], []
    for folder in folders:
        rows = [row for row in read_metrics(folder, RETURN.__eq__) if RETURN in row]
        if not rows:
            raise ValueError(f"{folder}: no episode has ended yet; train for longer")
        means = [row[RETURN] for row in rows]
        if not all(type(mean) in (int, float) and abs(mean) < 1e300 for mean in means):  # also excludes NaN
            raise ValueError(f"{folder}: damaged: {RETURN} is not a number everywhere")
        curves.append((np.array([row[STEPS] for row in rows]), np.array(means, float)))
        # Only one of the final policy counts: an evaluation of an earlier step is of another policy.
        evaluations.append(read_evaluation(folder, rows[-1][STEPS]))
    # At the steps of the longest curve, up to the end of the shortest: nothing is extrapolated.
    steps = max((c[0] for c in curves), key=len)
    end = min(c[0][-1] for c in curves)
    steps = steps[steps <= end]
    returns = np.stack([np.interp(steps, x, y) for x, y in curves])
    scores = tuple(float(np.mean(each)) for each in evaluations) if all(evaluations) else ()
    return Group(name=name, steps=steps, returns=returns, folders=tuple(folders), evaluations=scores)


def check_groups(groups: Any) -> list[Group]:
    """Return a list of at least one group, each with a unique name."""
    checked = listed("groups", groups, "a list of groups of runs, as returned by group_runs")
    for group in checked:
        check_type("groups", group, Group, "groups of runs, as returned by group_runs")
    if not checked:
        raise ValueError("groups: got an empty list, want at least one group of runs")
    check_different("groups", [group.name for group in checked])
    return checked


def comparable_scores(groups: Sequence[Group]) -> tuple[str, list[np.ndarray]]:
    """Return ``"evaluation"`` and the evaluations of all groups, or ``"training"`` and the returns at the end of their
    training if one group has no evaluation.
    """
    # The two are never compared with each other: exploration makes returns during training worse.
    if all(group.evaluations for group in groups):
        return "evaluation", [np.array(group.evaluations) for group in groups]
    return "training", [group.final for group in groups]


def interval_or_mean(estimate: Callable[..., Interval], *samples: np.ndarray) -> dict[str, Any]:
    """Return an estimate and its interval, or no interval if there is only one sample."""
    interval = vars(estimate(*samples))
    return interval if min(map(len, samples)) > 1 else interval | {"low": None, "high": None}


def compare_groups(groups: Sequence[Group]) -> dict[str, Any]:
    """Return interquartile means of the final returns, and the probability of improvement for each pair.

    ``"of"`` says what is compared: ``"evaluation"`` of the final policies if all runs have one, else the last tenth of
    ``"training"``. With one seed, ``"low"`` and ``"high"`` are None, and there is no probability.
    """
    groups = check_groups(groups)
    of, scores = comparable_scores(groups)
    # Better groups first, so that each pair reads "better > worse".
    ranked = sorted(zip(groups, scores, strict=True), key=lambda pair: -interquartile_mean(pair[1]))
    return {
        "of": of,
        "final": {g.name: interval_or_mean(iqm, x) | {"seeds": len(x)} for g, x in zip(groups, scores, strict=True)},
        "improvement": {
            f"{a.name} > {b.name}": vars(probability_of_improvement(x, y))
            for (a, x), (b, y) in combinations(ranked, 2)
            if min(len(x), len(y)) > 1
        },
    }


def draw_curves(groups: Sequence[Group], colours: Sequence[str] = plots.PALETTE) -> Figure:
    """Plot learning curves: the interquartile mean over seeds with its confidence interval as a band."""
    groups, colours = check_groups(groups), listed("colours", colours, "a list of colours")
    if not colours or not all(is_color_like(colour) for colour in colours):
        raise ValueError(f"colours: got {shown(colours)}, want matplotlib colours, such as ['#0072B2']")
    figure, (ax,) = plots.canvas(width=8.0)
    for g, colour in zip(groups, cycle(colours), strict=False):
        points = [iqm(column) for column in g.returns.T]
        # Wrapped, since a long name beside the axes would leave no room for them.
        label = textwrap.fill(f"{plots.plain_text(g.name)} ({counted(len(g.returns), 'seed')})", 50)
        ax.plot(g.steps, [p.mean for p in points], color=colour, label=label)
        if len(g.returns) > 1:  # the interval of one seed has no width
            low, high = [p.low for p in points], [p.high for p in points]
            ax.fill_between(g.steps, low, high, color=colour, alpha=0.2, linewidth=0)
    ax.set(xlabel="steps of all environments", ylabel="episode return, interquartile mean")
    plots.count_ticks(ax.xaxis)
    plots.legend_beside(ax)
    return figure
