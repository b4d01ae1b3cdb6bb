"""Fig. 4b: the last action is not part of the penalty, but VPG credits it with the errors of all other actions."""

from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from factorax.runs.statistics import Interval

from ..harness import curves, plots
from ..harness.bandit_engine import BanditMethod
from ..harness.claims import Claim, verdict
from ..harness.experiment import Experiment
from ..harness.parts import Arrays
from ..harness.search_claims import SCALE, chosen, settled
from ..harness.statistics import gamma_mean
from ..harness.sweep import Job, Search, sweeps
from ..harness.table import Table, from_rows, where


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiment (App. D, AD)."""

    n: int = 100
    penalty: float = 0.01
    seeds: int = 10
    steps: int = 1_000_000
    every: int = 5000
    vpg_step_size: float = 0.001
    fpg_step_size: float = 0.01
    norm: Literal[1, 2] = 1
    """p of the distance ‖a − c‖ₚ."""
    scale: float | None = None
    """A factor on all targets instead of 1/n; 1 leaves them undivided."""


def jobs(settings: Settings) -> list[Job]:
    """Return the parts: VPG, then FPG."""
    problem = Search(settings.n, settings.n - 1, settings.penalty, norm=settings.norm, scale=settings.scale)
    sizes = {BanditMethod("vpg"): settings.vpg_step_size, BanditMethod("fpg"): settings.fpg_step_size}
    return [
        Job(
            problem=problem,
            method=method,
            step_sizes=(step_size,),
            seeds=settings.seeds,
            steps=settings.steps,
            every=settings.every,
            measure="last component",
        )
        for method, step_size in sizes.items()
    ]


def tabulate(settings: Settings, seed: int, results: list[Arrays]) -> Table:
    """Return a row for each estimator, seed and recorded step."""
    pairs = zip(jobs(settings), results, strict=True)
    table = from_rows(chain.from_iterable(curves.rows(job, seed, result) for job, result in pairs))
    return {"squared_error" if name == "measure" else name: column for name, column in table.items()}


def summarise(settings: Settings, table: Table) -> dict[str, Any]:
    """Return the squared error of the last action and its spread within a run, over the last fifth of the steps."""
    summary: dict[str, Any] = {}
    for label in ("VPG", "FPG"):
        rows = where(table, method=label)
        _, error = curves.matrix(rows, "squared_error")
        _, gap = curves.matrix(rows, "gap")
        sound = np.isfinite(gap[:, -1])
        tail = slice(-max(2, error.shape[1] // 5), None)
        entry: dict[str, Any] = {"diverged": int((~sound).sum()), "runs": len(sound)}
        if sound.any():
            entry["squared error"] = vars(gamma_mean(error[sound, tail].mean(axis=1)))
            entry["variation within a run"] = vars(gamma_mean(error[sound, tail].std(axis=1, ddof=1)))
            entry["gap"] = vars(gamma_mean(gap[sound, tail].mean(axis=1)))
        summary[label] = entry
    return summary


def draw(settings: Settings, table: Table, summary: dict[str, Any]) -> Figure:
    """Plot each seed as a thin line and their mean as a thick one."""
    figure, (ax,) = plots.canvas()
    sizes = {"VPG": settings.vpg_step_size, "FPG": settings.fpg_step_size}
    for label, step_size in sizes.items():
        step, error = curves.matrix(where(table, method=label), "squared_error")
        ax.plot(
            step, np.where(np.isfinite(error), error, np.nan).T, color=plots.COLOURS[label], alpha=0.3, linewidth=0.5
        )
        curves.band(ax, step, error, f"{label}, η = {step_size:g}", plots.COLOURS[label], linewidth=2)
    ax.set(yscale="log", xlabel="step", ylabel="squared error of the last action, (μₙ − cₙ)²")
    ax.set_title(
        f"Search bandit, n = {settings.n}, penalty {settings.penalty:g} on all actions but the last\n"
        f"{settings.seeds} seeds (thin), their mean (thick) ± standard error",
        fontsize=10,
    )
    plots.count_ticks(ax.xaxis)
    plots.legend_beside(ax)
    return figure


def claims(settings: Settings, summary: dict[str, Any]) -> list[Claim]:
    """Return the claim on the aliasing effect."""
    vpg, fpg = summary["VPG"], summary["FPG"]
    rows = []
    for what, claim in (
        ("squared error", "VPG leaves a larger error in the one action that is not part of the penalty (aliasing)."),
        ("variation within a run", "Under VPG the error of that action is noisier than under FPG."),
    ):
        if what not in vpg or what not in fpg:
            continue
        ratio = Interval(**vpg[what]) / Interval(**fpg[what])
        rows.append(
            Claim(
                claim=claim,
                where="Sec. 5.1, Fig. 4b",
                paper="curves only",
                ours=f"{what}, VPG / FPG over the last fifth: {ratio}, with step sizes {settings.vpg_step_size:g} and "
                f"{settings.fpg_step_size:g}",
                verdict=verdict(ratio.low > 1),
                note="The error is that of the mean action; a sampled action adds the policy's own variance of 1."
                if what == "squared error"
                else "",
                chosen_by=chosen(
                    paper="n, λ and both step sizes",
                    us=f"{settings.steps:,} steps (the paper does not say how many), the last fifth of them, {SCALE}",
                ),
            )
        )
    return settled(rows)


parts = sweeps(jobs)
EXPERIMENT = Experiment.of(
    __name__,
    title="Squared error of the one action that is not part of the penalty",
    paper="Fig. 4b",
    budgets={"quick": Settings(steps=800_000, every=8000), "paper": Settings()},
)
