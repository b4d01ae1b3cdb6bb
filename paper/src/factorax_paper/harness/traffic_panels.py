"""The figure of ``traffic-better``: learning curves of each grid, scores of final policies, ablations."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from factorax.runs.statistics import Interval

from . import plots, trainings
from .table import Table, where


def draw_panels(table: Table, summary: dict[str, Any], *, base: str, seeds: int) -> Figure:
    """Return the figure for a summary of ``traffic-better``; `base` is the method that the ablations modify."""
    grids, ablations = summary["grids"], summary["ablations"]
    columns = len(grids) + 1 + bool(ablations)
    figure, axes = plots.canvas(columns, width=3.6 * columns + 2.4, height=4.2)
    lines = [entry["controllers"] for entry in grids.values()]
    floor, ceiling = 1.3 * min(line["always"] for line in lines), 0.6 * max(line["gap-out"] for line in lines)
    for ax, (grid, entry) in zip(axes, grids.items(), strict=False):
        _curves(ax, table, grid, entry)
        ax.set(ylim=(floor, ceiling), title=f"{grid}, while training")
    axes[0].set(ylabel="return of an episode")
    scores = axes[len(grids)]
    _scores(scores, grids, floor)
    scores.set(ylim=(floor, ceiling), title=f"final policies, in {summary['simulator']}")
    if ablations:
        grid, entry = next(iter(grids.items()))
        _ablations(axes[-1], entry["methods"][base], ablations, entry["controllers"]["gap-out"])
        axes[-1].set(title=f"{grid}, {base}: one change", xlabel=f"return of final policies, in {summary['simulator']}")
    plots.legend_beside(axes[-1], handles=axes[0].get_legend_handles_labels()[0])
    figure.suptitle(f"The preset traffic-full, {seeds} seeds", fontsize=10)
    return figure


def _curves(ax: Axes, table: Table, grid: str, entry: dict[str, Any]) -> None:
    for method, colour in zip(entry["methods"], plots.PALETTE, strict=False):
        name = f"{grid}, {method}"
        group = trainings.group(where(table, method=name), name)
        trainings.plot_returns(ax, group.steps / 1e6, group.returns, alpha=0.2, color=colour, label=method)
    for (controller, value), style in zip(entry["controllers"].items(), ("--", ":", "-."), strict=True):
        ax.axhline(value, color="#777777", linestyle=style, linewidth=1, label=controller)
    ax.set(xlabel="steps of all environments, millions")


def _scores(ax: Axes, grids: dict[str, Any], floor: float) -> None:
    """Plot seeds as dots, their interquartile mean with its interval, and one line per grid for the gap-out
    controller."""
    ticks = []
    for i, (grid, entry) in enumerate(grids.items()):
        rows = entry["methods"]
        left = i * (len(rows) + 1)
        for x, (row, colour) in enumerate(zip(rows.values(), plots.PALETTE, strict=False), start=left):
            values = np.array(row["seeds"])
            shown = values[values >= floor]
            ax.scatter(np.full(shown.size, x - 0.15), shown, color=colour, s=12, alpha=0.5)
            plots.point(ax, x + 0.15, Interval(**row["score"]), color=colour)
            if shown.size < values.size:
                worst = f"{values.min():,.0f}".replace("-", "−")
                ax.annotate(f"↓ {worst}", (x, floor * 0.98), ha="center", fontsize=7, color=colour)
        right = left + len(rows) - 1
        ax.hlines(
            entry["controllers"]["gap-out"], left - 0.5, right + 0.5, color="#777777", linestyle="--", linewidth=1
        )
        ticks.append(((left + right) / 2, grid))
    ax.set_xticks(*zip(*ticks, strict=True))


def _ablations(ax: Axes, base: dict[str, Any], rows: dict[str, Any], gap_out: float) -> None:
    labels = {"the preset": base} | rows
    for y, row in enumerate(labels.values()):
        middle, colour = Interval(**row["score"]), plots.PALETTE[0] if row is base else "#444444"
        ax.scatter(row["seeds"], np.full(len(row["seeds"]), y + 0.2), color=colour, s=10, alpha=0.4)
        error = [[middle.mean - middle.low], [middle.high - middle.mean]]
        ax.errorbar(middle.mean, y, xerr=np.maximum(error, 0), fmt="o", color=colour)
    ax.axvspan(base["score"]["low"], base["score"]["high"], color=plots.PALETTE[0], alpha=0.15, linewidth=0)
    ax.axvline(gap_out, color="#777777", linestyle="--", linewidth=1)
    ax.set_yticks(range(len(labels)), list(labels), fontsize=8)
    ax.invert_yaxis()
