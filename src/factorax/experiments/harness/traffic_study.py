"""What the experiments ``traffic-3x3`` and ``traffic-2x6`` share: runs, tables, figures.

All methods have the paper's settings. A minibatch of 125 steps holds what n lights did in them: n times the paper's
minibatch, and for every method as many gradient steps. *Small batches* has the paper's number of samples in a minibatch
instead, and so n times the gradient steps.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...problems.traffic import LaneSimulator, Traffic
from ...problems.traffic.controllers import CONTROLLERS
from ...problems.traffic.episode import play
from ...runs import plots
from ...runs.statistics import Interval, iqm
from . import trainings
from .claims import Claim
from .experiment import Experiment
from .parts import Arrays, Part
from .table import Table, where
from .trainings import Training, train

LINES = ("gap-out", "always", "actuated")
"""Reference controllers; those with fixed times are far below."""
SHARED = ("--policy", "shared", "--identity", "0", "--critic", "factor")
_PAPER = {
    "n_steps": 400,
    "n_epochs": 10,
    "learning_rate": 5e-4,
    "gamma": 0.999,
    "gae_lambda": 0.97,
    "clip_range": 0.3,
    "kl_coef_target": 0.02,
    "vf_coef": 1.0,
    "max_grad_norm": 1e9,
    "bootstrap": "never",
}
Options = Mapping[str, tuple[str, ...]]
"""From the name of a method to its options of ``factorax train``."""


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiment."""

    methods: tuple[str, ...]
    iterations: int = 200
    n_envs: int = 50
    seeds: int = 5
    sim: str = "lanes"
    """What policies are trained in; all are scored in SUMO as well, where it is installed."""
    in_sumo: int = 5
    """Episodes of that."""


def plan(rows: int, columns: int, options: Options) -> Callable[[Settings, int], list[Training]]:
    """Returns the function from (settings, seed) to the runs on a grid."""

    def trainings_of(settings: Settings, seed: int) -> list[Training]:
        head = "sumo" if settings.sim == "sumo" else "traffic"
        common = [text for name, value in _PAPER.items() for text in (f"--{name.replace('_', '-')}", value)]
        common += ["--n-envs", settings.n_envs, "--hidden", 32, 32, 32]
        first = seed * settings.seeds
        runs = []
        for method in settings.methods:
            steps = settings.iterations * settings.n_envs * _PAPER["n_steps"]
            arguments = *common, "--batch-size", _batch(method, rows * columns), *options[method]
            problem = f"{head}:{rows}x{columns},action=gaussian"
            if head == "sumo":
                arguments += "--rollouts", "processes"
                runs += [
                    train(method, problem, *arguments, seed=first + i, steps=steps, in_sumo=settings.in_sumo)
                    for i in range(settings.seeds)
                ]
            else:
                seeds, in_sumo = settings.seeds, settings.in_sumo
                runs.append(train(method, problem, *arguments, seed=first, steps=steps, seeds=seeds, in_sumo=in_sumo))
        return runs

    return trainings_of


def _batch(method: str, lights: int) -> int:
    """Returns the steps in a minibatch: 125, or few enough that all lights together have about 128 samples."""
    few = min((size for size in (8, 10, 16, 20) if size * lights >= 128), default=20)
    return few if "small batches" in method else 125


def experiment(
    rows: int,
    columns: int,
    *,
    options: Options,
    quick: tuple[str, ...],
    figure_of_paper: str,
    result_of_paper: str,
    claims: Callable[[Settings, dict[str, Any]], list[Claim]],
) -> Experiment:
    """Returns the experiment on one grid.

    - `options`: of every method of the paper's budget; `quick`: the methods of the quick one.
    - `figure_of_paper`, `result_of_paper`: which figure of the paper it reproduces, and what that shows.
    """
    size = f"{rows}x{columns}"
    runs = plan(rows, columns, options)

    def parts(settings: Settings, seed: int) -> list[Part]:
        return [*trainings.trainings(runs)(settings, seed), _controllers(rows, columns)]

    def tabulate(settings: Settings, seed: int, results: list[Arrays]) -> Table:
        """A row for each run and point of its curve; those of controllers have one point, and the return in SUMO's twin
        for all scores."""
        *trained, reference = results
        table = trainings.curves(runs(settings, seed), trained)
        returns = reference["returns"]
        names = np.repeat(LINES, returns.shape[1])
        columns = {"method": names, "seed": np.tile(np.arange(returns.shape[1]), len(LINES))}
        columns |= {"steps": np.zeros(names.size, int)}
        columns |= {key: returns.ravel() for key in ("return", "final", "sampled", "sumo")}
        columns |= {"variance_ratio": np.full(names.size, np.nan)}
        return {key: np.concatenate([table[key], columns[key]]) for key in table}

    def summarise(settings: Settings, table: Table) -> dict[str, Any]:
        """Interquartile means over seeds, of training, of final policies in the lane simulator, and of them in SUMO."""
        methods = trainings.summary(table, settings.methods)
        for method, row in methods.items():
            for score in ("sampled", "sumo"):
                values = trainings.finals(table, method, score)
                row[score] = None if np.isnan(values).any() else vars(iqm(values))
            row["area"] = vars(iqm(_area(table, method)))
        lines = {name: float(where(table, method=name)["final"].mean()) for name in LINES}
        return {"methods": methods, "controllers": lines, "grid": size}

    def draw(settings: Settings, table: Table, summary: dict[str, Any]) -> Figure:
        """Learning curves, and what final policies reach in SUMO."""
        figure, (left, right) = plots.canvas(2, width=11, height=4.2)
        for method, colour in zip(settings.methods, plots.PALETTE, strict=False):
            group = trainings.group(where(table, method=method), method)
            points = [iqm(column) for column in group.returns.T]
            left.plot(group.steps / 1e6, [p.mean for p in points], color=colour, label=method)
            if len(group.returns) > 1:
                low, high = [p.low for p in points], [p.high for p in points]
                left.fill_between(group.steps / 1e6, low, high, color=colour, alpha=0.2, linewidth=0)
        _lines(left, summary["controllers"])
        left.set(xlabel="steps of all environments, millions", ylabel="return of an episode", title="while training")
        left.set_ylim(_floor(summary), _ceiling(summary))
        _dots(right, settings, table, summary)
        plots.legend_beside(right, handles=left.get_legend_handles_labels()[0])
        title = (
            f"{size} traffic lights, {settings.seeds} seeds, trained in {settings.sim}. The paper: {result_of_paper}"
        )
        figure.suptitle(title, fontsize=10)
        return figure

    return Experiment(
        name=f"traffic-{size}",
        title=f"PPO on a grid of {size} traffic lights, by what a light is credited with",
        paper=figure_of_paper,
        budgets={
            "quick": Settings(methods=quick, iterations=20, n_envs=10, seeds=2, in_sumo=2),
            "paper": Settings(methods=tuple(options)),
        },
        parts=parts,
        tabulate=tabulate,
        summarise=summarise,
        draw=draw,
        claims=claims,
    )


def _controllers(rows: int, columns: int, episodes: int = 20) -> Part:
    """Measures the returns of the reference controllers over draws of the first cars, ``(controllers, episodes)``."""

    def compute(checkpoint: Any, tick: Any, stop: Any) -> Arrays:
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
    """Returns the mean return over the whole of training, for every seed: larger for one that learns faster."""
    return trainings.group(where(table, method=method), method).returns.mean(axis=1)


def _floor(summary: dict[str, Any]) -> float:
    """Returns the lower limit of figures: a policy that has collapsed may have a return of −10,000."""
    return 1.6 * min(summary["controllers"].values())


def _ceiling(summary: dict[str, Any]) -> float:
    return 0.6 * max(summary["controllers"].values())


def _lines(ax: Axes, controllers: dict[str, float]) -> None:
    for (name, value), style in zip(controllers.items(), ("--", ":", "-."), strict=True):
        ax.axhline(
            value, color="#777777", linestyle=style, linewidth=1, label=f"{name}, {value:.0f}".replace(" -", " −")
        )


def _dots(ax: Axes, settings: Settings, table: Table, summary: dict[str, Any]) -> None:
    """Draws the final policies of every method: in SUMO if it is installed, else in the lane simulator."""
    in_sumo = all(row["sumo"] is not None for row in summary["methods"].values())
    score, floor = ("sumo" if in_sumo else "final"), _floor(summary)
    for i, (method, colour) in enumerate(zip(settings.methods, plots.PALETTE, strict=False)):
        values = trainings.finals(table, method, score)
        middle = Interval(**summary["methods"][method][score])
        in_view = values >= floor
        ax.scatter(np.full(in_view.sum(), i), values[in_view], color=colour, s=14, alpha=0.5)
        ax.errorbar(
            i + 0.2, middle.mean, [[middle.mean - middle.low], [middle.high - middle.mean]], fmt="o", color=colour
        )
        for k, value in enumerate(np.sort(values[~in_view])):  # collapsed: annotated with their returns
            text = f"{value:,.0f}".replace("-", "−")
            ax.annotate(f"↓ {text}", (i + 0.15, floor * (0.98 - 0.06 * k)), ha="right", fontsize=7, color=colour)
    _lines(ax, summary["controllers"])
    ax.set_xticks([])
    ax.set_ylim(floor, _ceiling(summary))
    ax.set(title="final policies, " + ("in SUMO" if in_sumo else "in lanes"))
