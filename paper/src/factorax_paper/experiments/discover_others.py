"""Discovery of the networks of third-party problems, compared with the networks of their models.

The problems are UAV of the IPPC 2023 in rddlrepository, with the network of the RDDL model, and EV2Gym, with the
network that follows from its description (`factorax_paper.ev2gym`). Interventions use neither: an edge outside
the model's network would be an error of the model's network or of the interventions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from factorax.discovery import intervene
from factorax.integrations import rddl

from .. import ev2gym
from ..harness import plots
from ..harness.claims import OURS, Claim, verdict
from ..harness.experiment import Experiment
from ..harness.parts import Arrays, Part, Progress
from ..harness.table import Table, from_rows, where

COLOURS = {"in neither": "#FFFFFF", "in both": "#0072B2", "in the model, not found": "#E69F00",
           "found, not in the model": "#D00000"}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiment."""

    instances: tuple[str, ...] = ("2", "3", "4")
    """Instances of UAV_ippc2023."""
    horizon: int = 30
    """Number of steps of a UAV episode."""
    trials: int = 20
    days: int = 20
    """Number of trials of EV2Gym, one day of 112 steps each; 0 skips it."""


def uav(instance: str) -> Any:
    """Return the environment with the network of its dynamics, since actions are replayed and no actor reacts."""
    env = rddl.make("UAV_ippc2023", instance)
    env.network = env.influence.dynamics_network
    return env


def chargers() -> ev2gym.Chargers:
    """Return the environment of EV2Gym."""
    try:
        return ev2gym.Chargers()
    except ImportError as error:
        raise ImportError(f"{error}, or leave EV2Gym out with --set days=0") from error


def _cases(settings: Settings) -> dict[str, tuple[Callable[[], Any], int, int]]:
    """Return for each name the environment factory, the steps of an episode and the number of trials."""
    cases: dict[str, tuple[Callable[[], Any], int, int]] = {
        f"UAV {k}": (lambda k=k: uav(k), settings.horizon, settings.trials) for k in settings.instances
    }
    return cases | ({"EV2Gym": (chargers, 112, settings.days)} if settings.days else {})


def parts(settings: Settings, seed: int) -> list[Part]:
    """Return one part for each problem."""
    return [
        Part(name, float(h * t), partial(_discover, seed, make, h, t))
        for name, (make, h, t) in _cases(settings).items()
    ]


def _discover(seed: int, make: Callable[[], Any], horizon: int, trials: int, progress: Progress) -> Arrays:
    env = make()
    result = intervene(lambda: env, horizon=horizon, trials=trials, one_step=False, tolerance=0, seed=seed)
    return {
        "model": env.network.to_dense() > 0,
        "found": result.found(),
        "samples": result.samples,
        "steps": np.array(result.steps),
    }


def tabulate(settings: Settings, seed: int, results: list[Arrays]) -> Table:
    """Return a row for each pair of an action and a target."""
    rows = []
    for name, result in zip(_cases(settings), results, strict=True):
        for (i, j), model in np.ndenumerate(result["model"]):
            row = {"problem": name, "action": i, "target": j, "model": int(model)}
            row |= {"found": int(result["found"][i, j]), "samples": int(result["samples"][i, j])}
            rows.append(row | {"steps": int(result["steps"])})
    return from_rows(rows)


def summarise(settings: Settings, table: Table) -> dict[str, Any]:
    """Return edges of the model, found, missed and outside, and the minimum number of replays without an edge."""
    summary = {}
    for name in _cases(settings):
        rows = where(table, problem=name)
        model, discovered = rows["model"] > 0, rows["found"] > 0
        summary[name] = {
            "actions": int(rows["action"].max()) + 1,
            "targets": int(rows["target"].max()) + 1,
            "edges": int(model.sum()),
            "found": int((discovered & model).sum()),
            "outside": int((discovered & ~model).sum()),
            "apart": int((~model).sum()),
            "trials": int(rows["samples"][~discovered].min()) if (~discovered).any() else 0,
            "steps": int(rows["steps"][0]),
        }
    return summary


def draw(settings: Settings, table: Table, summary: dict[str, Any]) -> Figure:
    """Return one matrix per problem: edges in the model that were found or missed, and others that were found."""
    widths = [max(2.2, row["targets"] / 8) for row in summary.values()]
    figure = Figure(figsize=(sum(widths) + 2.2, 4.4), layout="constrained")
    axes = figure.subplots(1, len(summary), squeeze=False, width_ratios=widths)[0]
    for ax, (name, row) in zip(axes, summary.items(), strict=True):
        rows = where(table, problem=name)
        kind = np.zeros((row["actions"], row["targets"]), int)
        model, discovered = rows["model"] > 0, rows["found"] > 0
        kind[rows["action"], rows["target"]] = np.select([model & discovered, model, discovered], [1, 2, 3], 0)
        ax.imshow(kind, cmap=ListedColormap(list(COLOURS.values())), vmin=0, vmax=3, aspect="auto",
                  interpolation="nearest")  # fmt: skip
        for axis, count in ((ax.xaxis, row["targets"]), (ax.yaxis, row["actions"])):
            axis.set_ticks(np.arange(count + 1) - 0.5, minor=True)
            step = -(-count // 12)
            axis.set_ticks(range(0, count, step), [str(k + 1) for k in range(0, count, step)])
        ax.grid(which="minor", color="#DDDDDD", linewidth=0.5)
        ax.tick_params(which="minor", length=0)
        if name == "EV2Gym":
            ax.set_xticks([12, 37, 52], ["profits", "satisfaction", "overloads"])
        ax.set_xlabel("target")
        ax.set_title(f"{name}\n{row['found']} of {row['edges']} found, {row['outside']} false", fontsize=9)
    axes[0].set_ylabel("action")
    handles = [Patch(facecolor=colour, edgecolor="#888888", label=label) for label, colour in COLOURS.items()]
    plots.legend_beside(axes[-1], handles=handles, fontsize=8)
    return figure


def claims(settings: Settings, summary: dict[str, Any]) -> list[Claim]:
    """Return the claims: no edge outside the model, and the fraction of its edges that is found."""
    chosen = (
        f"us: the instances, {settings.trials} trials per pair in episodes of {settings.horizon} steps (UAV) and "
        f"{settings.days} days (EV2Gym), drawn at random"
    )
    outside = "; ".join(f"{name}: {row['outside']} of {row['apart']} pairs" for name, row in summary.items())
    least = min((row["trials"] for row in summary.values() if row["trials"]), default=0)
    shares = "; ".join(
        f"{name}: {row['found']} of {row['edges']} ({row['found'] / row['edges']:.0%}, {row['steps']:,} steps)"
        for name, row in summary.items()
    )
    return [
        Claim(
            claim="On third-party problems, interventions find no edge outside the network read from the model.",
            **OURS,
            ours=f"edges outside the network: {outside}",
            verdict=verdict(*(row["outside"] == 0 for row in summary.values())),
            chosen_by=chosen,
            would_settle="Checking the edges outside by hand: either the model's network or the intervention is wrong.",
            note="Networks of returns, open loop. For every pair without an edge, the action was changed in at least "
            f"{least} replays.",
        ),
        Claim(
            claim="On third-party problems, interventions find every edge of the network read from the model.",
            **OURS,
            ours=f"found: {shares}",
            verdict=verdict(*(row["found"] == row["edges"] for row in summary.values())),
            chosen_by=chosen,
            would_settle=(
                "Days on which the missing edges act, from a directed search or from more days: one changed target "
                "proves an edge."
            ),
            note="An edge of the model is a possible influence; an influence that did not occur in any episode "
            "cannot be found.",
        ),
    ]


EXPERIMENT = Experiment.of(
    __name__,
    title="Networks of UAV and EV2Gym found by intervention, compared with those read from the models",
    paper="–",
    budgets={"quick": Settings(instances=("2", "3"), horizon=10, trials=5, days=0), "paper": Settings()},
    alone=True,  # EV2Gym seeds the generators of the whole process
)
