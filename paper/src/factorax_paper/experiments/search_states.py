"""App. D, "Implications for MDPs": the search bandit with states, Cost(a) = ‖a − π*(s)‖ₚ for p = 1 and p = 2.

The policy is N(Θ s, I), s ~ N(0, I), and π*(s) = W s, so that all states share the parameters Θ. An update is
Θ ← Θ + η (ε ∘ k) sᵀ. The error of the mean action has a closed form, E‖(Θ − W) s‖₁ / n = √(2/π) Σᵢ ‖Θᵢ − Wᵢ‖₂ / n.
"""

import functools
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from factorax._credit import credit
from factorax._files import write_whole
from factorax.problems import search_bandit
from factorax.runs.statistics import Interval
from factorax.structure import InfluenceNetwork

from ..harness import grids, plots
from ..harness.ball import MEAN
from ..harness.bandit_engine import DIVERGED, BanditMethod
from ..harness.claims import Claim, verdict
from ..harness.experiment import Experiment
from ..harness.noise import gaussian_pair
from ..harness.parts import Arrays, Part, Progress, Stopped
from ..harness.search_claims import DIVERGENCE, SCALE, chosen, settled
from ..harness.table import Table, from_rows
from ..search_with_states import draw_targets

NORMS: tuple[Literal[1, 2], ...] = (1, 2)


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiment; all are ours."""

    n: int = 100
    features: int = 4
    step_sizes: tuple[float, ...] = grids.STEP_SIZES
    seeds: int = 10
    steps: int = 100_000
    every: int = 2000
    """Steps between checks for divergence."""


def mean_error(theta: jax.Array, targets: jax.Array) -> jax.Array:
    """Return E‖(Θ − W) s‖₁ / n over s ~ N(0, I), for Θ ``(..., n, features)`` and W ``(n, features)``, as ``(...)``."""
    return MEAN * jnp.linalg.norm(theta - targets, axis=-1).mean(axis=-1)


@functools.partial(jax.jit, static_argnames=("estimator", "norm", "steps"))
def advance(
    theta: Any, key: Any, targets: Any, step_sizes: Any, start: Any, *, estimator: str, norm: Literal[1, 2], steps: int
) -> jax.Array:
    """Learn for `steps` (even) more steps with each step size; Θ has shape ``(G, n, features)``."""
    n, features = targets.shape

    def update(theta: jax.Array, step_size: jax.Array, noise: jax.Array) -> jax.Array:
        eps, state = noise[:n], noise[n:]
        bandit = search_bandit(targets @ state, norm=norm)
        psi = bandit.targets(theta @ state + eps)
        net = bandit.network if estimator == "fpg" else InfluenceNetwork.complete(*bandit.network.shape)
        return theta + step_size * jnp.outer(eps * credit(net, psi), state)

    def two_steps(theta: jax.Array, pair: jax.Array) -> tuple[jax.Array, None]:
        for noise in gaussian_pair(key, pair, n + features):
            theta = jax.vmap(update, in_axes=(0, 0, None))(theta, step_sizes, noise)
        return theta, None

    return jax.lax.scan(two_steps, theta, start // 2 + jnp.arange(steps // 2))[0]


def _learn(settings: Settings, method: BanditMethod, norm: Literal[1, 2], seed: int, progress: Progress) -> Arrays:
    """Return the mean error of each seed and step size, ``(S, G)``; infinite for runs that diverged.

    When stopped, the state is written to the checkpoint, and a further call continues from there.
    """
    S, G = settings.seeds, len(settings.step_sizes)
    sizes = np.asarray(settings.step_sizes, np.float32)
    targets = np.stack([draw_targets(settings.n, settings.features, [seed, r]) for r in range(S)]).astype(np.float32)
    keys = np.array([[seed, r] for r in range(S)], np.uint32)
    first, theta, sound = 0, np.zeros((S, G, *targets.shape[1:]), np.float32), np.ones((S, G), bool)
    if progress.checkpoint.exists():
        with np.load(progress.checkpoint, allow_pickle=False) as stored:
            first, theta, sound = int(stored["first"]), stored["theta"], stored["sound"]
    options = {"estimator": method.estimator, "norm": norm, "steps": settings.every}
    errors = np.zeros((S, G), np.float32)
    for start in range(first, settings.steps, settings.every):
        for r in range(S):
            theta[r] = advance(theta[r], keys[r], targets[r], np.where(sound[r], sizes, 0), start, **options)
            errors[r] = mean_error(theta[r], targets[r])
        sound &= errors <= DIVERGED  # false for NaN too
        progress.report((start + settings.every) / settings.steps)
        if progress.stop.is_set():
            state = {"first": start + settings.every, "theta": theta, "sound": sound}
            write_whole(progress.checkpoint, lambda file, state=state: np.savez(file, allow_pickle=False, **state))
            raise Stopped
    errors = np.stack([mean_error(theta[r], targets[r]) for r in range(S)])
    return {"gap": np.where(sound, errors, np.inf)}


def _keys() -> list[tuple[Literal[1, 2], BanditMethod]]:
    return list(product(NORMS, grids.ESTIMATORS))


def parts(settings: Settings, seed: int) -> list[Part]:
    """Return one part for each norm and estimator."""
    if settings.every < 2 or settings.every % 2 or settings.steps % settings.every:
        raise ValueError(f"every: got {settings.every} of {settings.steps} steps, want an even divisor")
    return [
        Part(f"{method.label} p={norm}", 1.0, functools.partial(_learn, settings, method, norm, seed))
        for norm, method in _keys()
    ]


def tabulate(settings: Settings, seed: int, results: list[Arrays]) -> Table:
    """Return a row for each run."""
    return from_rows(
        {"norm": norm, "method": method.label, "step_size": step_size, "seed": r}
        | {"gap": float(result["gap"][r, g]), "diverged": int(not np.isfinite(result["gap"][r, g]))}
        for (norm, method), result in zip(_keys(), results, strict=True)
        for r in range(settings.seeds)
        for g, step_size in enumerate(settings.step_sizes)
    )


def summarise(settings: Settings, table: Table) -> dict[str, Any]:
    """Return the Gamma mean of the error in each cell, and the ratio of both estimators, each at its best step size."""
    keys = [
        {"norm": norm, "method": method.label, "step_size": step_size}
        for (norm, method), step_size in product(_keys(), settings.step_sizes)
    ]
    cells = grids.cells(table, keys, lambda runs: runs["gap"])
    best: dict[str, Any] = {}
    for norm in NORMS:
        entry: dict[str, Any] = {}
        for label in ("FPG", "VPG"):
            ours = [c for c in cells if c["norm"] == norm and c["method"] == label and grids.whole(c)]
            entry[label] = min(ours, key=lambda c: c["mean"]["mean"], default=None)
        if entry["FPG"] and entry["VPG"]:
            entry["FPG / VPG"] = vars(Interval(**entry["FPG"]["mean"]) / Interval(**entry["VPG"]["mean"]))
        best[f"p = {norm}"] = entry
    return {"cells": cells, "best": best}


def draw(settings: Settings, table: Table, summary: dict[str, Any]) -> Figure:
    """Plot the error by step size for both norms, with gaps where a run diverged."""
    figure, axes = plots.canvas(columns=len(NORMS), width=9.0, height=3.8)
    for ax, norm in zip(axes, NORMS, strict=True):
        for label, line in (("FPG", "-"), ("VPG", "--")):
            ours = [c for c in summary["cells"] if c["norm"] == norm and c["method"] == label]
            means = [grids.whole(c) for c in ours]
            low, mid, high = (
                np.array([getattr(i, name) if i else np.nan for i in means]) for name in ("low", "mean", "high")
            )
            style = {"color": plots.COLOURS[label], "linestyle": line, "marker": "o", "markersize": 4}
            ax.plot(settings.step_sizes, mid, label=label, **style)
            ax.fill_between(settings.step_sizes, low, high, color=plots.COLOURS[label], alpha=0.25, linewidth=0)
        ax.set(xscale="log", yscale="log", xlabel="step size η", title=f"Cost = ‖a − π*(s)‖ of p = {norm}")
        if not any(grids.whole(c) for c in summary["cells"] if c["norm"] == norm):
            # Logarithmic axes without data have no default limits.
            ax.set(xlim=(min(settings.step_sizes) / 2, 2 * max(settings.step_sizes)), ylim=(0.1, 10.0))
        ax.title.set_fontsize(10)
        plots.plain_log_ticks(ax.yaxis)
    axes[0].set_ylabel("mean error of the mean action,\nE‖(Θ − W) s‖₁ / n")
    axes[0].legend(frameon=False)
    figure.suptitle(
        f"Search with states, n = {settings.n}, {settings.seeds} seeds, after {settings.steps:,} steps; 95 % intervals",
        fontsize=10,
    )
    return figure


def claims(settings: Settings, summary: dict[str, Any]) -> list[Claim]:
    """Return the claims of App. D on MDPs, for both norms."""
    rows = []
    for norm in NORMS:
        best = summary["best"][f"p = {norm}"]
        cells = {m: [c for c in summary["cells"] if (c["norm"], c["method"]) == (norm, m)] for m in ("FPG", "VPG")}
        lost = {m: sum(c["diverged"] > 0 for c in ours) for m, ours in cells.items()}
        ratio = Interval(**best["FPG / VPG"]) if "FPG / VPG" in best else None
        sizes = {m: f"{best[m]['step_size']:g}" if best[m] else "none" for m in ("FPG", "VPG")}
        note = (
            "π*(s) = W s, and the policy's mean is Θ s: states share parameters. Each action has its own target."
            if norm == 1
            else "The distance is one target that all actions influence: K is complete, and FPG equals VPG, run by run."
        )
        edges = (min(settings.step_sizes), max(settings.step_sizes))
        at_edge = [m for m in ("FPG", "VPG") if best[m] and best[m]["step_size"] in edges]
        if at_edge:
            note += f" The best step size of {' and '.join(at_edge)} is at the edge of the grid."
        rows.append(
            Claim(
                claim=f"With states and Cost(a) = ‖a − π*(s)‖ with p = {norm}, FPG outperforms VPG.",
                where="App. D, Implications for MDPs",
                paper="expected for all p ≥ 1; not tested",
                ours=f"mean error, FPG / VPG, each at its best step size ({sizes['FPG']} and {sizes['VPG']}): "
                f"{ratio or 'none, for a method diverges with all'}; FPG has a diverged run with {lost['FPG']} of "
                f"{len(settings.step_sizes)} step sizes, VPG with {lost['VPG']}",
                verdict=verdict(bool(best["FPG"]) and (ratio is None or ratio.high < 1), lost["FPG"] < lost["VPG"]),
                note=note,
                chosen_by=chosen(
                    paper="the cost", us=f"π*, the states, the policy, all sizes and step sizes, {DIVERGENCE}, {SCALE}"
                ),
            )
        )
    return settled(rows)


EXPERIMENT = Experiment.of(
    __name__,
    title="VPG and FPG on the search bandit with states, for two norms of the cost",
    paper="App. D (MDPs)",
    budgets={"quick": Settings(n=20, seeds=4, steps=10_000, every=1000), "paper": Settings()},
)
