"""Fig. 4a: how VPG and FPG converge on the search bandit, with the baselines that are used in practice."""

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..runs import plots
from ..runs.statistics import Interval, gamma_mean
from .harness import curves
from .harness.bandit_engine import METHODS, BanditMethod
from .harness.claims import Claim, verdict
from .harness.experiment import Experiment
from .harness.parts import Arrays, sweeps
from .harness.sweep import Job, Search
from .harness.table import Table, from_rows, where


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiment (App. D, BC)."""

    n: int = 1000
    seeds: int = 10
    steps: int = 100_000
    every: int = 200
    step_size: float = 0.5
    """Of all methods."""
    low_step_size: float = 0.001
    """Of VPG without a baseline, which diverges at the other: it is run with both."""


def jobs(settings: Settings) -> list[Job]:
    """One for each method."""
    plain = BanditMethod("vpg")
    return [
        Job(
            problem=Search(settings.n),
            method=method,
            step_sizes=(settings.low_step_size, settings.step_size) if method == plain else (settings.step_size,),
            seeds=settings.seeds,
            steps=settings.steps,
            every=settings.every,
        )
        for method in METHODS
    ]


def tabulate(settings: Settings, seed: int, results: list[Arrays]) -> Table:
    """A row for each method, step size, seed and recorded step."""
    pairs = zip(jobs(settings), results, strict=True)
    table = from_rows(chain.from_iterable(curves.rows(job, seed, result) for job, result in pairs))
    del table["measure"]  # the gap once more
    return table


def _each(settings: Settings, table: Table) -> dict[tuple[str, float], tuple[np.ndarray, np.ndarray]]:
    keys = [(job.method.label, step_size) for job in jobs(settings) for step_size in job.step_sizes]
    return {key: curves.matrix(where(table, method=key[0], step_size=key[1]), "gap") for key in keys}


def summarise(settings: Settings, table: Table) -> dict[str, Any]:
    """The gap at the end, the spread over seeds, and when half of the way was gone."""
    summary = {}
    for (label, step_size), (step, gap) in _each(settings, table).items():
        end = gap[:, -1]
        sound = np.isfinite(end)
        entry: dict[str, Any] = {"diverged": int((~sound).sum()), "runs": len(end)}
        if not sound.all():
            entry["divergence seen at step"] = int(step[~np.isfinite(gap).all(axis=0)].min())
        if sound.any():
            entry["final gap"] = vars(gamma_mean(end[sound]))
            entry["spread over seeds"] = float(end[sound].std(ddof=1)) if sound.sum() > 1 else 0.0
            tail = gap[sound][:, len(step) // 2 :].mean(axis=1)
            entry["gap over the second half"] = vars(gamma_mean(tail))
            if (gap[sound].min(axis=1) <= gap[sound][:, 0] / 2).all():
                entry["steps to halve the gap"] = vars(gamma_mean([_halved(step, curve) for curve in gap[sound]]))
        summary[f"{label} η={step_size:g}"] = entry
    return summary


def _halved(step: np.ndarray, curve: np.ndarray) -> float:
    """The step at which a curve first crosses half its height, between two records on a straight line."""
    after = int((curve <= curve[0] / 2).argmax())
    before = after - 1
    return float(np.interp(-curve[0] / 2, -curve[[before, after]], step[[before, after]]))


def draw(settings: Settings, table: Table, summary: dict[str, Any]) -> Figure:
    """Mean and standard error over seeds, on a logarithmic scale."""
    figure, (ax,) = plots.canvas()
    for (label, step_size), (step, gap) in _each(settings, table).items():
        diverges = not np.isfinite(gap).all()
        name = f"{label}, η = {step_size:g}" + (" (diverges)" if diverges else "")
        style = {"linestyle": ":" if diverges else "-", "marker": "x" if diverges else None, "markevery": [-1]}
        curves.band(ax, step, gap, name, plots.COLOURS[label], **style)
    ax.set(yscale="log", xlabel="step", ylabel="optimality gap of the mean action,\n‖μ − c‖₁ / n")
    ax.set_title(f"Search bandit, n = {settings.n}, {settings.seeds} seeds, ± standard error", fontsize=10)
    plots.plain_log_ticks(ax.yaxis)
    plots.count_ticks(ax.xaxis)
    plots.legend_beside(ax)
    return figure


def claims(settings: Settings, summary: dict[str, Any]) -> list[Claim]:
    """What Sec. 5.1 says of the figure."""
    where_ = "Sec. 5.1, Fig. 4a"

    def entry(label: str, step_size: float = settings.step_size) -> dict[str, Any]:
        return summary[f"{label} η={step_size:g}"]

    def gap(label: str, step_size: float = settings.step_size, what: str = "final gap") -> str:
        e = entry(label, step_size)
        if what not in e:
            return f"{label}: {e['diverged']} of {e['runs']} diverged"
        return f"{label}: {Interval(**e[what])}"

    def below(a: dict[str, Any], b: dict[str, Any], what: str = "final gap") -> bool:
        return what in a and (what not in b or a[what]["high"] < b[what]["low"])

    low, high = entry("VPG", settings.low_step_size), entry("VPG")
    value, action, fpg, fpg_value = (entry(m.label) for m in METHODS[1:])
    return [
        Claim(
            claim="Without a baseline VPG is stable only with an extremely small step size.",
            where=f"{where_}; App. D",
            paper="stable at 0.001; 0.5 for the others",
            ours=f"η = {settings.step_size:g}: {high['diverged']} of {high['runs']} runs diverge; "
            f"η = {settings.low_step_size:g}: {low['diverged']} of {low['runs']}",
            verdict=verdict(high["diverged"] == high["runs"], low["diverged"] == 0),
            note="Rewards divided by n, as everywhere here; undivided, VPG diverges at both.",
        ),
        Claim(
            claim="A baseline improves VPG dramatically.",
            where=where_,
            paper="curves only",
            ours=f"final gaps {gap('VPG', settings.low_step_size)}; {gap('VPG b(s)')}; {gap('VPG b(s,a)')}",
            verdict=verdict(below(value, low), below(action, low)),
        ),
        Claim(
            claim="The action-dependent baseline b(s,a) is better asymptotically than b(s).",
            where=where_,
            paper="curves only",
            ours=f"mean gap over the second half: {gap('VPG b(s)', what='gap over the second half')}; "
            f"{gap('VPG b(s,a)', what='gap over the second half')}",
            verdict=verdict(below(action, value, "gap over the second half")),
            note="With aᵢ replaced by its mean in factor i's baseline; as printed, b(s,a) biases the gradient.",
        ),
        Claim(
            claim="FPG learns faster, with and without b(s).",
            where=where_,
            paper="curves only",
            ours=f"steps to halve the gap: {gap('FPG', what='steps to halve the gap')}; "
            f"{gap('FPG b(s)', what='steps to halve the gap')}; {gap('VPG b(s)', what='steps to halve the gap')}; "
            f"{gap('VPG b(s,a)', what='steps to halve the gap')}",
            verdict=verdict(
                *(below(f, v, "steps to halve the gap") for f in (fpg, fpg_value) for v in (low, value, action))
            ),
        ),
        Claim(
            claim="FPG converges more consistently and is stable asymptotically, with and without b(s).",
            where=where_,
            paper="curves only",
            ours=f"final gaps {gap('FPG')}; {gap('FPG b(s)')}; {gap('VPG b(s)')}; {gap('VPG b(s,a)')}; "
            "spread over seeds "
            + ", ".join(f"{e.get('spread over seeds', float('nan')):.2g}" for e in (fpg, fpg_value, value, action)),
            verdict=verdict(
                *(below(f, v) for f in (fpg, fpg_value) for v in (value, action)),
                *(
                    f.get("spread over seeds", np.inf) < v.get("spread over seeds", np.inf)
                    for f in (fpg, fpg_value)
                    for v in (value, action)
                ),
            ),
            note=(
                "VPG with b(s,a) comes to rest where FPG without a baseline does: w has then learnt the centre, and "
                "the baseline takes off what K leaves out. It needs longer, and a baseline of just this form."
            ),
        ),
    ]


EXPERIMENT = Experiment(
    name="search-baselines",
    title="Learning curves of VPG and FPG with their baselines on the search bandit",
    paper="Fig. 4a",
    budgets={"quick": Settings(steps=20_000), "paper": Settings()},
    parts=sweeps(jobs),
    tabulate=tabulate,
    summarise=summarise,
    draw=draw,
    claims=claims,
)
