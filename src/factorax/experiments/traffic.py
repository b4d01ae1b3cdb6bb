"""Fig. 5: PPO on grids of traffic lights, each credited with near streets, or all with everything.

All methods have the paper's settings. A minibatch of 125 steps holds what n lights did in them: n times the paper's
minibatch, and for every method as many gradient steps. *Small batches* has the paper's number of samples in a minibatch
instead, and so n times the gradient steps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..learning.comparing import PALETTE, iqm
from ..problems.traffic import LaneSimulator, Traffic
from ..problems.traffic.controllers import CONTROLLERS
from ..problems.traffic.playing import play
from . import figures, trainings
from .claims import Claim, verdict
from .experiment import Experiment
from .parts import Arrays, Part
from .statistics import Interval
from .table import Table, where
from .trainings import Training, train

LINES = ("gap-out", "always", "actuated")
"""Reference controllers; fixed times are far below."""
_SHARED = ("--policy", "shared", "--identity", "0", "--critic", "factor")
_PAPER = {
    "n_steps": 400,
    "n_epochs": 10,
    "learning_rate": 5e-4,
    "discount": 0.999,
    "gae_lambda": 0.97,
    "clip_range": 0.3,
    "kl_target": 0.02,
    "vf_coef": 1.0,
    "max_grad_norm": 1e9,
    "bootstrap": "never",
}
JOINT, GLOBAL, LOCAL = "joint, global", "shared, global", "shared, local"
CORRIDOR, TARGETS = "shared, corridor", "shared, local, a critic a street"
SMALL_GLOBAL, SMALL_LOCAL = "shared, global, small batches", "shared, local, small batches"
OWN_OPTIONS: dict[str, tuple[str, ...]] = {
    LOCAL: (*_SHARED, "--network", "incident"),
    GLOBAL: (*_SHARED, "--network", "complete"),
    JOINT: ("--policy", "joint", "--estimator", "vanilla", "--critic", "factor"),
    CORRIDOR: (*_SHARED, "--network", "corridor"),
    TARGETS: (*_SHARED, "--network", "incident", "--critic", "target"),
    SMALL_GLOBAL: (*_SHARED, "--network", "complete"),
    SMALL_LOCAL: (*_SHARED, "--network", "incident"),
}
LEVELS = {f"n = {n}": (*_SHARED, "--network", f"n-level:{n}") for n in range(6)}
LEVELS |= {"all streets": (*_SHARED, "--network", "complete")}
OPTIONS = OWN_OPTIONS | LEVELS


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


def plan(rows: int, columns: int) -> Callable[[Settings, int], list[Training]]:
    """The runs for (settings, seed) on a grid."""

    def trainings_of(settings: Settings, seed: int) -> list[Training]:
        head = "sumo" if settings.sim == "sumo" else "traffic"
        common = [text for name, value in _PAPER.items() for text in (f"--{name.replace('_', '-')}", value)]
        common += ["--n-envs", settings.n_envs, "--hidden", 32, 32, 32]
        first = seed * settings.seeds
        made = []
        for method in settings.methods:
            steps = settings.iterations * settings.n_envs * _PAPER["n_steps"]
            options = *common, "--batch-size", _batch(method, rows * columns), *OPTIONS[method]
            problem = f"{head}:{rows}x{columns},action=gaussian"
            if head == "sumo":
                options += "--rollouts", "processes"
                made += [
                    train(method, problem, first + i, steps, *options, in_sumo=settings.in_sumo)
                    for i in range(settings.seeds)
                ]
            else:
                made.append(
                    train(method, problem, first, steps, *options, seeds=settings.seeds, in_sumo=settings.in_sumo)
                )
        return made

    return trainings_of


def _batch(method: str, lights: int) -> int:
    """Steps in a minibatch: 125, or so few that the samples of all lights together are about 128."""
    few = min((size for size in (8, 10, 16, 20) if size * lights >= 128), default=20)
    return few if "small batches" in method else 125


def experiment(rows: int, columns: int, quick: tuple[str, ...], paper: tuple[str, ...]) -> Experiment:
    """The experiment on one grid."""
    size = f"{rows}x{columns}"
    runs = plan(rows, columns)

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
        found = trainings.summary(table, settings.methods)
        for method, row in found.items():
            for score in ("sampled", "sumo"):
                values = trainings.finals(table, method, score)
                row[score] = None if np.isnan(values).any() else vars(iqm(values))
            row["area"] = vars(iqm(_area(table, method)))
        lines = {name: float(where(table, method=name)["final"].mean()) for name in LINES}
        return {"methods": found, "controllers": lines, "grid": size}

    def draw(settings: Settings, table: Table, summary: dict[str, Any]) -> Figure:
        """Learning curves, and what final policies reach in SUMO."""
        figure, (left, right) = figures.canvas(2, width=11, height=4.2)
        for method, colour in zip(settings.methods, PALETTE, strict=False):
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
        figures.legend_beside(right, handles=left.get_legend_handles_labels()[0])
        said = "near streets learn faster and end better" if size == "3x3" else "the fewer columns n, the better"
        title = f"{size} traffic lights, {settings.seeds} seeds, trained in {settings.sim}. The paper: {said}"
        figure.suptitle(title, fontsize=10)
        return figure

    return Experiment(
        name=f"traffic-{size}",
        title=f"PPO on a grid of {size} traffic lights, by what a light is credited with",
        paper="Fig. 5a" if size == "3x3" else "Fig. 5b",
        budgets={
            "quick": Settings(quick, iterations=20, n_envs=10, seeds=2, in_sumo=2),
            "paper": Settings(paper),
        },
        parts=parts,
        tabulate=tabulate,
        summarise=summarise,
        draw=draw,
        claims=_claims_3x3 if size == "3x3" else _claims_2x6,
    )


def _controllers(rows: int, columns: int, episodes: int = 20) -> Part:
    """Returns of the reference controllers over draws of the first cars, ``(controllers, episodes)``."""

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
    """The mean return over the whole of training, of every seed: larger for one that learns faster."""
    return trainings.group(where(table, method=method), method).returns.mean(axis=1)


def _floor(summary: dict[str, Any]) -> float:
    """Where figures end below: a policy that has collapsed may have −10,000."""
    return 1.6 * min(summary["controllers"].values())


def _ceiling(summary: dict[str, Any]) -> float:
    return 0.6 * max(summary["controllers"].values())


def _lines(ax: Axes, controllers: dict[str, float]) -> None:
    for (name, value), style in zip(controllers.items(), ("--", ":", "-."), strict=True):
        ax.axhline(
            value, color="#777777", linestyle=style, linewidth=1, label=f"{name}, {value:.0f}".replace(" -", " −")
        )


def _dots(ax: Axes, settings: Settings, table: Table, summary: dict[str, Any]) -> None:
    """Of every method the final policies: in SUMO if that was there, else in the lane simulator."""
    in_sumo = all(row["sumo"] is not None for row in summary["methods"].values())
    score, floor = ("sumo" if in_sumo else "final"), _floor(summary)
    for i, (method, colour) in enumerate(zip(settings.methods, PALETTE, strict=False)):
        values = trainings.finals(table, method, score)
        middle = Interval(**summary["methods"][method][score])
        seen = values >= floor
        ax.scatter(np.full(seen.sum(), i), values[seen], color=colour, s=14, alpha=0.5)
        ax.errorbar(
            i + 0.2, middle.mean, [[middle.mean - middle.low], [middle.high - middle.mean]], fmt="o", color=colour
        )
        for k, value in enumerate(np.sort(values[~seen])):  # collapsed: what they have is said
            text = f"{value:,.0f}".replace("-", "−")
            ax.annotate(f"↓ {text}", (i + 0.15, floor * (0.98 - 0.06 * k)), ha="right", fontsize=7, color=colour)
    _lines(ax, summary["controllers"])
    ax.set_xticks([])
    ax.set_ylim(floor, _ceiling(summary))
    ax.set(title="final policies, " + ("in SUMO" if in_sumo else "in lanes"))


def _claims_3x3(settings: Settings, summary: dict[str, Any]) -> list[Claim]:
    """Faster, and better in the end."""
    rows = summary["methods"]
    others = [method for method in (GLOBAL, JOINT) if method in rows]
    if LOCAL not in rows or not others:
        return []

    def said(score: str) -> str:
        return "; ".join(f"{m} {trainings.shown(rows[m][score])}" for m in (LOCAL, *others))

    def ahead(score: str) -> list[bool]:
        return [Interval(**rows[LOCAL][score]).low > Interval(**rows[m][score]).high for m in others]

    note = f"{settings.seeds} seeds of {settings.iterations} iterations of {settings.n_envs} episodes"
    return [
        Claim(
            "On 3×3 lights, a shared policy with the local baseline learns faster than with the global reward.",
            "Fig. 5a",
            "learning curves, without numbers",
            f"mean return over all of training, interquartile mean of seeds: {said('area')}; {note}",
            verdict(*ahead("area")),
        ),
        Claim(
            "On 3×3 lights, it ends with a better policy.",
            "Fig. 5a",
            "learning curves, without numbers",
            f"return over the last tenth of training: {said('training')}; {note}",
            verdict(*ahead("training")),
        ),
    ]


def _claims_2x6(settings: Settings, summary: dict[str, Any]) -> list[Claim]:
    """The wider the window, the worse."""
    rows = [summary["methods"][method] for method in settings.methods]
    if len(rows) < 2:
        return []
    areas, lates = ([Interval(**row[score]) for row in rows] for score in ("area", "training"))
    ends = [scores[0].low > scores[-1].high for scores in (areas, lates)]
    rises = any(b.low > a.high for a, b in pairwise(areas))
    falls = all(a.mean > b.mean for a, b in pairwise(lates))

    def said(score: str) -> str:
        return "; ".join(f"{m} {trainings.shown(row[score])}" for m, row in zip(settings.methods, rows, strict=True))

    return [
        Claim(
            "On 2×6 lights, performance decreases with the number of columns n that a light is credited with.",
            "Fig. 5b",
            "learning curves, without numbers",
            f"mean return over all of training, interquartile mean of {settings.seeds} seeds: {said('area')}; over its "
            f"last tenth, in which some runs collapse: {said('training')}",
            verdict(*ends, not rises, falls),
        )
    ]


EXPERIMENTS = {
    "traffic-3x3": experiment(3, 3, (LOCAL, GLOBAL, JOINT), tuple(OWN_OPTIONS)),
    "traffic-2x6": experiment(2, 6, ("n = 0", "n = 2", "all streets"), tuple(LEVELS)),
}
