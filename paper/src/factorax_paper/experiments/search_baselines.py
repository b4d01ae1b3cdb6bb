"""Fig. 4a: convergence of VPG and FPG on the search bandit, with the usual baselines."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from factorax.runs.statistics import Interval

from ..harness import curves, plots
from ..harness.bandit_engine import AS_PRINTED, METHODS, BanditMethod
from ..harness.claims import Claim, verdict
from ..harness.experiment import Experiment
from ..harness.parts import Arrays
from ..harness.search_claims import DIVERGENCE, SCALE, chosen, settled
from ..harness.statistics import gamma_mean
from ..harness.sweep import Job, Search, sweeps
from ..harness.table import Table, from_rows, where


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiment (App. D, BC)."""

    n: int = 1000
    seeds: int = 10
    steps: int = 100_000
    every: int = 200
    step_size: float = 0.5
    """Step size of all methods."""
    low_step_size: float = 0.001
    """Second step size of VPG without a baseline, which diverges at the other."""
    norm: Literal[1, 2] = 1
    """p of the distance ‖a − c‖ₚ."""


UNDIVIDED = "undivided"


def jobs(settings: Settings) -> list[Job]:
    """Return one part for each method; then VPG and FPG with undivided rewards, as the paper prints them."""
    plain, both = BanditMethod("vpg"), (settings.low_step_size, settings.step_size)
    divided = {method: both if method == plain else (settings.step_size,) for method in (*METHODS, AS_PRINTED)}
    undivided = {plain: both, BanditMethod("fpg"): both}
    return [
        Job(
            problem=Search(settings.n, norm=settings.norm, scale=scale),
            method=method,
            step_sizes=step_sizes,
            seeds=settings.seeds,
            steps=settings.steps,
            every=settings.every,
        )
        for scale, group in ((None, divided), (1.0, undivided))
        for method, step_sizes in group.items()
    ]


def _rewards(job: Job) -> str:
    return UNDIVIDED if isinstance(job.problem, Search) and job.problem.scale is not None else "divided by n"


def tabulate(settings: Settings, seed: int, results: list[Arrays]) -> Table:
    """Return one row per method, step size, seed and recorded step; gaps are always divided by n."""
    rows = []
    for job, result in zip(jobs(settings), results, strict=True):
        unit = 1 / settings.n if _rewards(job) == UNDIVIDED else 1.0
        for row in curves.rows(job, seed, result):
            rows.append({"rewards": _rewards(job)} | row | {"gap": unit * row["gap"]})
    table = from_rows(rows)
    del table["measure"]  # the gap once more
    return table


def _each(settings: Settings, table: Table) -> dict[tuple[str, float, str], tuple[np.ndarray, np.ndarray]]:
    keys = [(job.method.label, size, _rewards(job)) for job in jobs(settings) for size in job.step_sizes]
    return {
        (label, size, rewards): curves.matrix(where(table, method=label, step_size=size, rewards=rewards), "gap")
        for label, size, rewards in keys
    }


def summarise(settings: Settings, table: Table) -> dict[str, Any]:
    """Return the final gap, the spread over seeds, and the step at which half of the way was made."""
    summary = {}
    for (label, step_size, rewards), (step, gap) in _each(settings, table).items():
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
        summary[f"{label} η={step_size:g}" + (f" {UNDIVIDED}" if rewards == UNDIVIDED else "")] = entry
    return summary


def _halved(step: np.ndarray, curve: np.ndarray) -> float:
    """Return the step at which a curve first crosses half its height, by linear interpolation."""
    after = int((curve <= curve[0] / 2).argmax())
    before = after - 1
    return float(np.interp(-curve[0] / 2, -curve[[before, after]], step[[before, after]]))


def draw(settings: Settings, table: Table, summary: dict[str, Any]) -> Figure:
    """Draw mean and standard error over seeds, on a logarithmic scale; with rewards divided by n."""
    figure, (ax,) = plots.canvas()
    for (label, step_size, rewards), (step, gap) in _each(settings, table).items():
        if rewards == UNDIVIDED:
            continue
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
    """Return the claims of Sec. 5.1 on the figure."""
    where_ = "Sec. 5.1, Fig. 4a"

    def entry(label: str, step_size: float = settings.step_size) -> dict[str, Any]:
        return summary[f"{label} η={step_size:g}"]

    def lost(label: str, rewards: str = "") -> str:
        """Return how many runs of a method diverge at either step size."""
        shown = []
        for size in (settings.step_size, settings.low_step_size):
            e = summary[f"{label} η={size:g}{rewards}"]
            shown.append(f"η = {size:g}: {e['diverged']} of {e['runs']} runs of {label} diverge")
        return "; ".join(shown)

    def gap(label: str, step_size: float = settings.step_size, what: str = "final gap") -> str:
        e = entry(label, step_size)
        if what not in e:
            return f"{label}: {e['diverged']} of {e['runs']} diverged"
        return f"{label}: {Interval(**e[what])}"

    def below(a: dict[str, Any], b: dict[str, Any], what: str = "final gap") -> bool:
        return what in a and (what not in b or a[what]["high"] < b[what]["low"])

    low, high = entry("VPG", settings.low_step_size), entry("VPG")
    value, action, fpg, fpg_value = (entry(m.label) for m in METHODS[1:])
    printed = entry(AS_PRINTED.label)
    whole = [summary[f"VPG η={size:g} {UNDIVIDED}"] for size in (settings.low_step_size, settings.step_size)]
    sizes = "step sizes, rates of the baselines, 1000 episodes of pre-training, 10 seeds"
    steps = f"{settings.steps:,} steps (the paper does not say how many)"
    rows = [
        Claim(
            claim="Without a baseline VPG is stable only with an extremely small step size.",
            where=f"{where_}; App. D",
            paper="stable at 0.001; 0.5 for the others",
            ours=lost("VPG"),
            verdict=verdict(high["diverged"] == high["runs"], low["diverged"] == 0),
            note="Rewards are divided by n unless a claim says otherwise.",
            chosen_by=chosen(paper=sizes, us=f"{SCALE}, {steps}, {DIVERGENCE}"),
        ),
        Claim(
            claim="With the rewards as printed, not divided by n, VPG without a baseline is stable at a step size of "
            f"{settings.low_step_size:g}.",
            where=f"{where_}; App. D",
            paper="stable at 0.001",
            ours=f"{lost('VPG', ' ' + UNDIVIDED)}; {lost('FPG', ' ' + UNDIVIDED)}",
            verdict=verdict(whole[0]["diverged"] == 0),
            note="Undivided rewards with a step size of η are, for all methods but b(s,a), exactly rewards divided by "
            "n with one of nη.",
            chosen_by=chosen(paper=sizes, us=f"{steps}, {DIVERGENCE}"),
        ),
        Claim(
            claim="A baseline improves VPG dramatically.",
            where=where_,
            paper="curves only",
            ours=f"final gaps {gap('VPG', settings.low_step_size)}; {gap('VPG b(s)')}; {gap('VPG b(s,a)')}",
            verdict=verdict(below(value, low), below(action, low)),
            note="VPG without a baseline runs at its own step size, the others at theirs.",
            chosen_by=chosen(paper=sizes, us=f"{SCALE}, {steps}"),
        ),
        Claim(
            claim="The action-dependent baseline b(s,a) is better asymptotically than b(s).",
            where=where_,
            paper="curves only",
            ours=f"mean gap over the second half: {gap('VPG b(s)', what='gap over the second half')}; "
            f"{gap('VPG b(s,a)', what='gap over the second half')}",
            verdict=verdict(below(action, value, "gap over the second half")),
            note="In the baseline of factor i, aᵢ is replaced by its mean; as printed, b(s,a) biases the gradient.",
            chosen_by=chosen(paper=sizes, us=f"{SCALE}, {steps}, the second half of them, how aᵢ is replaced"),
        ),
        Claim(
            claim="As printed, as a function of the whole action, b(s,a) is better asymptotically than b(s).",
            where=f"{where_}; App. D",
            paper="curves only",
            ours=f"mean gap over the second half: {gap('VPG b(s)', what='gap over the second half')}; "
            f"{gap(AS_PRINTED.label, what='gap over the second half')}",
            verdict=verdict(below(printed, value, "gap over the second half")),
            note="In expectation μᵢ moves by 2η (Φ(μᵢ − wᵢ) − Φ(μᵢ − cᵢ)) / n instead of 2η (½ − Φ(μᵢ − cᵢ)) / n, "
            "exactly: by zero, for any μ, once w has learnt c.",
            chosen_by=chosen(paper=sizes, us=f"{SCALE}, {steps}, the second half of them"),
        ),
        Claim(
            claim="As printed, b(s,a) makes VPG slower and less consistent than with aᵢ replaced by its mean.",
            where="not in the paper",
            paper="not compared",
            ours=f"steps to halve the gap: {gap(AS_PRINTED.label, what='steps to halve the gap')}; "
            f"{gap('VPG b(s,a)', what='steps to halve the gap')}; final gaps {gap(AS_PRINTED.label)}; "
            f"{gap('VPG b(s,a)')}; spread over seeds "
            + ", ".join(f"{e.get('spread over seeds', float('nan')):.2g}" for e in (printed, action)),
            verdict=verdict(
                below(action, printed, "steps to halve the gap"),
                below(action, printed),
                action.get("spread over seeds", np.inf) < printed.get("spread over seeds", np.inf),
            ),
            source="ours",
            chosen_by=chosen(paper=sizes, us=f"{SCALE}, {steps}"),
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
            chosen_by=chosen(paper=sizes, us=f"{SCALE}, half of the first gap as the measure of speed"),
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
                "VPG with b(s,a) settles where FPG without a baseline does: w has then learnt the centre, and the "
                "baseline subtracts what K leaves out. It takes longer, and it needs a baseline of exactly this "
                "form."
            ),
            chosen_by=chosen(paper=sizes, us=f"{SCALE}, {steps}, how aᵢ is replaced in b(s,a)"),
            would_settle="Details of the paper's b(s,a): how it was kept from biasing the gradient, and the number "
            "of steps. Where VPG with b(s,a) ends depends on both.",
        ),
    ]
    return settled(rows)


parts = sweeps(jobs)
EXPERIMENT = Experiment.of(
    __name__,
    title="Learning curves of VPG and FPG with their baselines on the search bandit",
    paper="Fig. 4a",
    budgets={"quick": Settings(steps=20_000), "paper": Settings()},
)
