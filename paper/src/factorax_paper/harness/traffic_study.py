"""Runs, tables and figures shared by the experiments ``traffic-3x3`` and ``traffic-2x6``.

The preset ``traffic-paper`` has exactly the paper's PPO, which is that of RLlib 0.7: a minibatch has 128 samples of
single lights, so a shared policy makes n times as many gradient steps as a joint policy. With
``traffic-paper-large-minibatches``, a minibatch has 125 steps of all n lights: n times the samples of the paper's
minibatches, and the same number of gradient steps for every policy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from factorax_traffic import LaneSimulator, Traffic
from factorax_traffic.controllers import CONTROLLERS
from factorax_traffic.episode import play
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from factorax.ppo import Config
from factorax.ppo.presets import read_preset, settings_with
from factorax.runs.statistics import Interval, iqm

from ..rllib07 import RLlib07
from . import plots, sumo_scores, trainings
from .claims import Claim
from .experiment import Experiment
from .parts import Arrays, Part, Progress
from .table import Table, where
from .trainings import Training, train

LINES = ("gap-out", "always", "actuated")
"""Reference controllers; controllers with fixed times have much lower returns."""
LITERAL = "traffic-paper"
CHOSEN_BY = (
    "the paper: the PPO settings that it names, and otherwise those of RLlib 0.7; we: the number of iterations, "
    "which the paper does not state, ten seeds, and that 95 % intervals must not overlap"
)


@dataclass(frozen=True)
class Method:
    """A method: its changes to the preset."""

    network: str = "complete"
    joint: bool = False
    """Whether all lights are one agent, with a joint policy and one ratio."""
    problem: str = ""
    """Options of the problem, with a comma in front."""


Methods = Mapping[str, Method]


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiment."""

    methods: tuple[str, ...]
    iterations: int = 120
    n_envs: int = 50
    seeds: int = 10
    preset: str = LITERAL
    """The settings of PPO."""
    sim: Literal["lanes", "sumo"] = "lanes"
    """Simulator in which policies are trained; all are also scored in SUMO if it is installed."""
    in_sumo: int = 5
    """Number of SUMO episodes per policy."""


def plan(rows: int, columns: int, methods: Methods) -> Callable[[Settings, int], list[Training]]:
    """Return the function from (settings, seed) to the runs on a grid. Methods that differ only in their networks are
    trained together."""

    def trainings_of(settings: Settings, seed: int) -> list[Training]:
        groups: dict[tuple[bool, str], dict[str, str]] = {}
        for name in settings.methods:
            method = methods[name]
            groups.setdefault((method.joint, method.problem), {})[name] = method.network
        runs = []
        for (joint, extra), networks in groups.items():
            arguments: tuple[Any, ...] = ("--n-envs", settings.n_envs)
            if joint:
                arguments += tuple(chain(*joint_options(settings.preset).items()))
            elif settings.preset == LITERAL:  # lights share the reward, as Flow's agents do
                arguments += ("--reward-scale", 1 / (rows * columns))
            runs += _together(settings, seed, f"{rows}x{columns},action=gaussian{extra}", arguments, networks)
        return runs

    return trainings_of


def joint_options(preset: str) -> dict[str, str]:
    """Return the options with which the PPO of a preset has one agent for all lights."""
    method = Config(**settings_with(preset, {})).method
    # A single agent of RLlib has no agents to draw minibatches from, only steps.
    joint = replace(method, ratio="joint", minibatch_of="steps") if isinstance(method, RLlib07) else "ppo"
    return {"--policy": "joint", "--method": str(joint)}


def _together(
    settings: Settings, seed: int, problem: str, arguments: tuple[Any, ...], networks: dict[str, str]
) -> list[Training]:
    """Return one part that trains all networks and seeds, or one part for each in SUMO."""
    first, steps = seed * settings.seeds, read_preset(settings.preset).settings["n_steps"]
    common: dict[str, Any] = {"steps": settings.iterations * settings.n_envs * steps, "preset": settings.preset}
    if settings.sim == "sumo":  # a process holds one simulation of SUMO, so runs cannot share a program
        in_workers = *arguments, "--rollouts", "processes", "--network"
        return [
            train(name, f"sumo:{problem}", *in_workers, network, seed=first + i, **common)
            for name, network in networks.items()
            for i in range(settings.seeds)
        ]
    several = networks if len(networks) > 1 else None
    arguments += () if several else ("--network", *networks.values())
    common |= {"seed": first, "seeds": settings.seeds, "networks": several}
    return [train(next(iter(networks)), f"traffic:{problem}", *arguments, **common)]


def experiment(
    rows: int,
    columns: int,
    *,
    methods: Methods,
    quick: tuple[str, ...],
    figure_of_paper: str,
    result_of_paper: str,
    claims: Callable[[Settings, dict[str, Any]], list[Claim]],
    draw: Callable[[Settings, Table, dict[str, Any]], Figure] | None = None,
) -> Experiment:
    """Return the experiment on one grid.

    - `methods`: the methods of the budget ``"paper"``; `quick`: the names of those in the budget ``"quick"``.
    - `figure_of_paper`, `result_of_paper`: the figure of the paper that is reproduced, and what it shows.
    - `draw`: as `Experiment.draw`; by default learning curves and final policies.
    """
    size = f"{rows}x{columns}"
    runs = plan(rows, columns, methods)

    def parts(settings: Settings, seed: int) -> list[Part]:
        return [*trainings.trainings(runs)(settings, seed), _controllers(rows, columns)]

    def tabulate(settings: Settings, seed: int, results: list[Arrays]) -> Table:
        """Return one row per run and point of its curve; controllers have one point, with their return in the lane
        simulator as all scores."""
        *trained, reference = results  # the controllers are the last part
        table = trainings.curves(runs(settings, seed), trained)
        returns = reference["returns"]
        names = np.repeat(LINES, returns.shape[1])
        columns = {"method": names, "seed": np.tile(np.arange(returns.shape[1]), len(LINES))}
        columns |= {"steps": np.zeros(names.size, int)}
        columns |= {key: returns.ravel() for key in ("return", "final", "sampled", "sumo")}
        columns |= {"variance_ratio": np.full(names.size, np.nan)}
        return {key: np.concatenate([table[key], columns[key]]) for key in table}

    def summarise(settings: Settings, table: Table) -> dict[str, Any]:
        """Return interquartile means over seeds of training, and of final policies in the lane simulator and in
        SUMO."""
        by_method = trainings.summary(table, settings.methods)
        for method, row in by_method.items():
            for score in ("sampled", "sumo"):
                values = trainings.finals(table, method, score)
                row[score] = None if np.isnan(values).any() else vars(iqm(values))
            row["area"] = vars(iqm(_area(table, method)))
        controllers = {name: float(where(table, method=name)["final"].mean()) for name in LINES}
        return {"methods": by_method, "controllers": controllers, "grid": size}

    def missing(settings: Settings, seed: int, table: Table, out: Path) -> list[Part]:
        return sumo_scores.missing_scores(table, runs(settings, seed), {}, out=out, episodes=settings.in_sumo)

    def draw_curves(settings: Settings, table: Table, summary: dict[str, Any]) -> Figure:
        """Plot learning curves and the scores of final policies in SUMO."""
        figure, (left, right) = plots.canvas(2, width=11, height=4.2)
        curves(left, table, settings.methods)
        lines(left, summary["controllers"])
        left.set_ylim(floor(summary), ceiling(summary))
        _dots(right, settings, table, summary)
        plots.legend_beside(right, handles=left.get_legend_handles_labels()[0])
        figure.suptitle(title(settings, size, result_of_paper), fontsize=10)
        return figure

    return Experiment(
        name=f"traffic-{size}",
        title=f"PPO on a grid of {size} traffic lights, by what a light is credited with",
        paper=figure_of_paper,
        budgets={
            "quick": Settings(methods=quick, iterations=10, n_envs=10, seeds=2, in_sumo=2),
            "paper": Settings(methods=tuple(methods)),
        },
        parts=parts,
        tabulate=tabulate,
        summarise=summarise,
        draw=draw or draw_curves,
        claims=claims,
        missing=missing,
    )


def _controllers(rows: int, columns: int, episodes: int = 20) -> Part:
    """Measure the returns of the reference controllers for random first cars, ``(controllers, episodes)``."""

    def compute(progress: Progress) -> Arrays:
        # Desired speeds are drawn anew in each episode, so controllers have a spread of returns as well.
        simulator = LaneSimulator(Traffic(rows, columns))
        keys = jax.random.split(jax.random.key(0), episodes)
        returns = []
        for name in LINES:
            controller = CONTROLLERS[name](simulator.grid)
            reward = jax.jit(jax.vmap(lambda key, c=controller: play(simulator, c, key)[0].reward))(keys)
            returns.append(np.asarray(reward, float).sum(axis=1))
        return {"returns": np.array(returns)}

    return Part("controllers", 1, compute)


def _area(table: Table, method: str) -> np.ndarray:
    """Return the mean return over all of training for each seed; faster learning gives a larger value."""
    return trainings.group(where(table, method=method), method).returns.mean(axis=1)


def final_score(summary: dict[str, Any]) -> Any:
    """Return the name of the score to show for final policies: in SUMO if all have one, otherwise in the lane
    simulator."""
    return "sumo" if all(row["sumo"] is not None for row in summary["methods"].values()) else "final"


def title(settings: Settings, size: str, result_of_paper: str) -> str:
    """Return the title of a figure."""
    return (
        f"{size} traffic lights, {settings.seeds} seeds, preset {settings.preset}, trained in {settings.sim}. "
        f"The paper: {result_of_paper}"
    )


def curves(ax: Axes, table: Table, methods: tuple[str, ...]) -> None:
    """Plot learning curves: interquartile means over seeds with intervals."""
    for method, colour in zip(methods, plots.PALETTE, strict=False):
        group = trainings.group(where(table, method=method), method)
        trainings.plot_returns(ax, group.steps / 1e6, group.returns, alpha=0.2, color=colour, label=method)
    ax.set(xlabel="steps of all environments, millions", ylabel="return of an episode", title="while training")


def floor(summary: dict[str, Any]) -> float:
    """Return the lower axis limit: below all methods, except those that have collapsed to about −10,000."""
    rows = summary["methods"].values()
    lowest = min(row[score]["low"] for row in rows for score in ("final", "training"))
    return max(1.6 * min(summary["controllers"].values()), 1.25 * min(lowest, *summary["controllers"].values()))


def ceiling(summary: dict[str, Any]) -> float:
    """Return the upper axis limit."""
    return 0.6 * max(summary["controllers"].values())


def lines(ax: Axes, controllers: dict[str, float]) -> None:
    """Plot the returns of controllers."""
    for (name, value), style in zip(controllers.items(), ("--", ":", "-."), strict=True):
        ax.axhline(
            value, color="#777777", linestyle=style, linewidth=1, label=f"{name}, {value:.0f}".replace(" -", " −")
        )


def _dots(ax: Axes, settings: Settings, table: Table, summary: dict[str, Any]) -> None:
    """Plot the final policies of every method: in SUMO if it is installed, otherwise in the lane simulator."""
    score, bottom = final_score(summary), floor(summary)
    for i, (method, colour) in enumerate(zip(settings.methods, plots.PALETTE, strict=False)):
        values = trainings.finals(table, method, score)
        in_view = values >= bottom
        ax.scatter(np.full(in_view.sum(), i), values[in_view], color=colour, s=14, alpha=0.5)
        plots.point(ax, i + 0.2, Interval(**summary["methods"][method][score]), color=colour)
        for k, value in enumerate(np.sort(values[~in_view])):  # collapsed: annotated with their returns
            text = f"{value:,.0f}".replace("-", "−")
            ax.annotate(f"↓ {text}", (i + 0.15, bottom * (0.98 - 0.06 * k)), ha="right", fontsize=7, color=colour)
    lines(ax, summary["controllers"])
    ax.set_xticks([])
    ax.set_ylim(bottom, ceiling(summary))
    ax.set(title="final policies, " + ("in SUMO" if score == "sumo" else "in lanes"))
