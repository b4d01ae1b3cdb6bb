"""From nine lights to ten thousand: final return per light and cost of a step, by the size of a grid.

All grids have the same number of steps and gradient steps. With more lights, the shared policy has more samples, and
the global reward contains more that a single light does not influence.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from factorax.runs.folder import read_metrics

from ..harness import plots, trainings
from ..harness.claims import Claim, verdict
from ..harness.experiment import Experiment
from ..harness.parts import Arrays
from ..harness.table import Table, where
from ..harness.trainings import Training, train

NEAR, ALL = "near streets", "all streets"
NETWORKS = {NEAR: "incident", ALL: "complete"}
N_STEPS = 400


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiment."""

    sizes: tuple[int, ...]
    """Number of rows, which equals the number of columns."""
    iterations: int = 40
    n_envs: int = 8
    seeds: int = 3


def plan(settings: Settings, seed: int) -> list[Training]:
    """Return the parts: both methods on each grid, one run at a time, since rates are measured without other load."""
    s = settings
    options = "--policy shared --critic factor --hidden 32 32 32 --gamma 0.95 --gae-lambda 0.95"
    options += " --learning-rate 1e-3 --ent-coef 0.02 --anneal learning_rate ent_coef --n-epochs 5"
    options += f" --n-steps {N_STEPS} --n-envs {s.n_envs} --batch-size {s.n_envs * N_STEPS // 10}"
    return [
        train(
            f"{method}, {size}x{size}",
            f"traffic:{size}x{size},initial=everywhere",
            *options.split(),
            "--network",
            NETWORKS[method],
            seed=seed * s.seeds + i,
            steps=s.iterations * s.n_envs * N_STEPS,
        )
        for size in s.sizes
        for method in NETWORKS
        for i in range(s.seeds)
    ]


def _measured(out: Path) -> Arrays:
    rows = read_metrics(out)
    rate = np.median([row["time/fps"] for row in rows[1:] or rows])  # the first has the compilation in it
    return {"rate": np.array([rate]), "peak": np.array([rows[-1].get("time/peak_gib", np.nan)])}


def tabulate(settings: Settings, seed: int, results: list[Arrays]) -> Table:
    """Return one row per run; returns are per light and episode."""
    names = [(size, method) for size in settings.sizes for method in NETWORKS for _ in range(settings.seeds)]
    lights = np.array([size**2 for size, _ in names])
    rates = np.array([r["rate"][0] for r in results])
    first, last = (np.array([part(r["returns"][0]) for r in results]) for part in (_first, _last))
    return {
        "method": np.array([method for _, method in names]),
        "lights": lights,
        "before": first / lights,
        "return": last / lights,
        "final": np.array([r["final"][0] for r in results]) / lights,
        "steps_per_second": rates,
        "nanoseconds": 1e9 / (rates * lights),
        "peak_gib": np.array([r["peak"][0] for r in results]),
    }


def _first(returns: np.ndarray) -> float:
    return float(returns[0])


def _last(returns: np.ndarray) -> float:
    return float(returns[-max(len(returns) // 10, 1) :].mean())


def summarise(settings: Settings, table: Table) -> dict[str, Any]:
    """Return for each method and number of lights the median, minimum and maximum return over seeds, and the best
    times.

    The fastest time is used because a device may be shared.
    """
    summary: dict[str, Any] = {}
    taken = dict.fromkeys(table, np.median) | {"steps_per_second": np.max, "nanoseconds": np.min, "peak_gib": np.max}
    for method in NETWORKS:
        of = [where(table, method=method, lights=size**2) for size in settings.sizes]
        summary[method] = {name: [float(taken[name](rows[name])) for rows in of] for name in table if name != "method"}
        summary[method] |= {"low": [float(rows["return"].min()) for rows in of]}
        summary[method] |= {"high": [float(rows["return"].max()) for rows in of]}
    return summary


def draw(settings: Settings, table: Table, summary: dict[str, Any]) -> Figure:
    """Plot return, time and memory by the number of lights."""
    figure, (left, middle, right) = plots.canvas(3, width=12, height=3.6)
    for (method, row), colour, mark in zip(summary.items(), plots.PALETTE, ("o-", "x--"), strict=False):
        left.plot(row["lights"], row["return"], mark, color=colour, label=method)
        left.fill_between(row["lights"], row["low"], row["high"], color=colour, alpha=0.2, linewidth=0)
        middle.plot(row["lights"], row["nanoseconds"], mark, color=colour)
        right.plot(row["lights"], row["peak_gib"], mark, color=colour)
    row = summary[NEAR]
    left.plot(row["lights"], row["before"], "o:", color="#999999", label="before training")
    left.set(
        xscale="log", ylabel="return per episode and light", title=f"at the end of training, {settings.seeds} seeds"
    )
    middle.set(xscale="log", yscale="log", ylabel="nanoseconds", title="training time per light and simulated second")
    right.set(xscale="log", yscale="log", ylabel="GiB", title="peak memory")
    for ax in (left, middle, right):
        ax.set(xlabel="traffic lights")
    plots.legend_beside(right, handles=left.get_legend_handles_labels()[0])
    return figure


def claims(settings: Settings, summary: dict[str, Any]) -> list[Claim]:
    """Return the claim: the gain grows with the number of lights."""
    near, everything = summary[NEAR], summary[ALL]
    gains = [a - b for a, b in zip(near["return"], everything["return"], strict=True)]
    apart = [a > b for a, b in zip(near["low"], everything["high"], strict=True)]

    def said(row: dict[str, Any], i: int) -> str:
        return "{:.1f} [{:.1f}, {:.1f}]".format(*(row[name][i] for name in ("return", "low", "high"))).replace("-", "−")

    returns = "; ".join(
        f"{lights:,.0f} lights {said(near, i)} and {said(everything, i)}" for i, lights in enumerate(near["lights"])
    )
    return [
        Claim(
            claim="The more lights there are, the larger the gain from crediting each light only with near streets.",
            where="Sec. 5.2",
            paper="with a global reward, aliasing becomes more likely with the number of lights",
            ours=(
                f"return per light at the end of training, with near streets and with all streets: {returns}; median "
                f"and range of {settings.seeds} seeds of {settings.iterations} iterations of {settings.n_envs} "
                "episodes"
            ),
            verdict=verdict(gains[-1] > gains[0], all(apart)),
            source="paper",
            chosen_by=(
                f"us: the measure, the sizes of the grids, {settings.iterations} iterations of {settings.n_envs} "
                f"episodes, {settings.seeds} seeds, and that their ranges must not overlap"
            ),
            would_settle="More seeds on the grids where the ranges overlap.",
        )
    ]


parts = trainings.trainings(plan, _measured)
EXPERIMENT = Experiment.of(
    __name__,
    title="Grids with increasing numbers of traffic lights, by what a light is credited with",
    paper="Beyond the paper",
    budgets={
        "quick": Settings(sizes=(3, 6), iterations=10, n_envs=4, seeds=1),
        "paper": Settings(sizes=(3, 10, 30, 100)),
    },
    alone=True,
)
