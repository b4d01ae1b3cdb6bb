"""Learning with different networks: true, by lag, discovered, adaptive, near and complete.

There are four problems: switches with few samples per rollout, parcels that pay later, traffic lights, and aircraft of
an RDDL model. All methods of a problem have the same settings and a critic of each target.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from factorax.discovery import discover
from factorax.problems.registry import find_problem
from factorax.runs.statistics import Interval, iqm

from ..harness import plots, trainings
from ..harness.claims import OURS, Claim, verdict
from ..harness.experiment import Experiment
from ..harness.parts import Arrays, Part, Progress
from ..harness.table import Table, where
from ..harness.trainings import Training, train

TRUE, LAGGED, DISCOVERED = "true", "by lag", "discovered"
ADAPTIVE, FROM_NEAR, NEAR, COMPLETE = "adaptive", "adaptive, from near", "near", "complete"
METHODS = (TRUE, LAGGED, DISCOVERED, ADAPTIVE, FROM_NEAR, NEAR, COMPLETE)


@dataclass(frozen=True)
class Case:
    """A problem, the names of its networks, and how to discover one."""

    problem: str
    networks: Mapping[str, str]
    steps: int
    """Number of training steps, summed over all environments, with the budget ``"paper"``."""
    options: str
    discovery_problem: str
    """The problem on which the network is discovered."""
    discovery: Mapping[str, Any]
    """Arguments of `discover`."""
    vmapped: bool = True
    """Whether seeds are trained at once in one program."""


CASES = {
    "switches": Case(
        problem="contextual-bandit:64",
        networks={TRUE: "own", DISCOVERED: DISCOVERED, ADAPTIVE: "adaptive", COMPLETE: "complete"},
        steps=32 * 300,
        options=(
            "--n-envs 32 --n-steps 1 --batch-size 32 --n-epochs 4 --hidden 16 --learning-rate 3e-3 --policy independent"
        ),
        discovery_problem="contextual-bandit:64",
        discovery={"method": "score", "samples": 3000},
    ),
    "parcels": Case(
        problem="chain:16,delay=8",
        networks={
            TRUE: "own",
            LAGGED: "lagged",
            DISCOVERED: DISCOVERED,
            ADAPTIVE: "adaptive",
            FROM_NEAR: "adaptive:near",
            NEAR: "near",
            COMPLETE: "complete",
        },
        steps=320 * 100,
        options=(
            "--n-envs 16 --n-steps 20 --batch-size 80 --n-epochs 4 --hidden 32 --learning-rate 3e-3 --policy "
            "shared,identity=8 --distribution clip"
        ),
        discovery_problem="chain:16,delay=8",
        discovery={"method": "score", "samples": 20_000, "horizon": 9},
    ),
    "traffic": Case(
        problem="traffic:3x3,slots=20",
        networks={
            TRUE: "corridor",
            LAGGED: "travel",
            DISCOVERED: DISCOVERED,
            ADAPTIVE: "adaptive",
            FROM_NEAR: "adaptive:incident",
            NEAR: "incident",
            COMPLETE: "complete",
        },
        steps=6400 * 150,
        options=(
            "--n-envs 16 --n-steps 400 --batch-size 320 --n-epochs 5 --hidden 32 32 32 --gamma 0.95 --gae-lambda "
            "0.95 --learning-rate 1e-3 --ent-coef 0.05 --anneal learning_rate ent_coef --policy shared"
        ),
        discovery_problem="traffic:3x3,slots=20,norm=fixed",
        discovery={"method": "interventional", "horizon": 400, "trials": 20, "one_step": False},
    ),
    "aircraft": Case(
        problem="rddl:UAV_ippc2023/4",
        networks={TRUE: "own", DISCOVERED: DISCOVERED, ADAPTIVE: "adaptive", COMPLETE: "complete"},
        steps=16_000,
        options=(
            "--n-envs 8 --n-steps 100 --batch-size 200 --n-epochs 10 --hidden 32 32 --learning-rate 3e-3 --gamma "
            "0.95 --gae-lambda 0.95 --policy independent --distribution tanh --normalize-obs --normalize-reward"
        ),
        discovery_problem="rddl:UAV_ippc2023/4",
        discovery={"method": "interventional", "horizon": 20, "trials": 3, "one_step": False},
        vmapped=False,  # the simulator of RDDL models runs outside of JAX
    ),
}


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiment."""

    cases: tuple[str, ...] = tuple(CASES)
    seeds: int = 5
    share: float = 1.0
    """Fraction of the steps."""


def plan(settings: Settings, seed: int) -> list[Training]:
    """Return the runs; a network that must be discovered has no file yet."""
    runs = []
    first = seed * settings.seeds
    for name in settings.cases:
        case = CASES[name]
        for method, network in case.networks.items():
            options = (*case.options.split(), "--critic", "target", "--no-check-network", "--network", network)
            steps = round(case.steps * settings.share)
            title = f"{name}, {method}"
            if case.vmapped:
                runs.append(train(title, case.problem, *options, seed=first, steps=steps, seeds=settings.seeds))
            else:
                runs += [
                    train(title, case.problem, *options, seed=first + i, steps=steps) for i in range(settings.seeds)
                ]
    return runs


def parts(settings: Settings, seed: int) -> list[Part]:
    """Return the parts; each discovers its network first, if necessary."""
    return [
        Part(training.name, training.steps * training.seeds, partial(_train, training, seed))
        for training in plan(settings, seed)
    ]


def _train(training: Training, seed: int, progress: Progress) -> Arrays:
    *options, network = training.arguments  # `plan` has put the network last
    if network == DISCOVERED:
        network = str(_discover(training.method.split(",")[0], progress.runs, seed))
    return trainings.run(replace(training, arguments=(*options, network)), progress)


def _discover(name: str, folder: Path, seed: int) -> Path:
    """Return the file of the discovered network, which all methods of a problem share."""
    # Kept with the runs: a resumed experiment must go on with the same network.
    path = folder / f"{name}.json"
    if not path.exists():
        case = CASES[name]
        discover(find_problem(case.discovery_problem), **case.discovery, seed=seed).network().save(path)
    return path


def tabulate(settings: Settings, seed: int, results: list[Arrays]) -> Table:
    """Return a row for each run and point of its curve."""
    return trainings.curves(plan(settings, seed), results)


def summarise(settings: Settings, table: Table) -> dict[str, Any]:
    """Return interquartile means over seeds, of all training and of its last tenth."""
    summary: dict[str, Any] = {}
    for name in settings.cases:
        summary[name] = {}
        for method in CASES[name].networks:
            group = trainings.group(where(table, method=f"{name}, {method}"), method)
            summary[name][method] = {
                "area": vars(iqm(group.returns.mean(axis=1))),
                "end": vars(iqm(group.final)),
                "seeds": len(group.final),
            }
    return summary


def draw(settings: Settings, table: Table, summary: dict[str, Any]) -> Figure:
    """Draw learning curves, a panel for each problem."""
    rows = -(-len(settings.cases) // 2)
    figure = Figure(figsize=(10, 3.6 * rows), layout="constrained")
    axes = figure.subplots(rows, min(len(settings.cases), 2), squeeze=False)
    handles: dict[str, Any] = {}
    for ax, name in zip(axes.ravel(), settings.cases, strict=False):
        for method in CASES[name].networks:
            colour = plots.PALETTE[METHODS.index(method)]
            group = trainings.group(where(table, method=f"{name}, {method}"), method)
            handles[method] = trainings.plot_returns(ax, group.steps, group.returns, color=colour, label=method)
        lows = [np.quantile(where(table, method=f"{name}, {m}")["return"], 0.05) for m in CASES[name].networks]
        highs = [where(table, method=f"{name}, {m}")["return"].max() for m in CASES[name].networks]
        ax.set_ylim(min(lows), max(highs) + 0.05 * (max(highs) - min(lows)))
        ax.set(title=name, xlabel="steps of all environments", ylabel="return of an episode")
        ax.ticklabel_format(axis="x", style="sci", scilimits=(0, 4))
    ordered = [handles[method] for method in METHODS if method in handles]
    plots.legend_beside(axes[0, -1], handles=ordered)
    return figure


def claims(settings: Settings, summary: dict[str, Any]) -> list[Claim]:
    """Return the claims on adaptive networks, discovered networks and lags."""

    def said(methods: tuple[str, ...], score: str, cases: dict[str, Any] = summary) -> str:
        return "; ".join(
            f"{name}: " + ", ".join(f"{m} {trainings.shown(rows[m][score])}" for m in methods if m in rows)
            for name, rows in cases.items()
        )

    def worse(rows: dict[str, Any], method: str, than: tuple[str, ...], score: str = "area") -> bool:
        return any(Interval(**rows[method][score]).high < Interval(**rows[m][score]).low for m in than if m in rows)

    def better(rows: dict[str, Any], method: str, than: str, score: str = "area") -> bool:
        return Interval(**rows[method][score]).low > Interval(**rows[than][score]).high

    note = f"{settings.seeds} seeds; interquartile means with 95 % intervals of the return over all of training."
    head: dict[str, Any] = OURS | {"would_settle": "More seeds on the problems whose intervals overlap."}
    head["chosen_by"] = (
        f"us: the problems, their settings and numbers of steps, {settings.seeds} seeds, and that 95 % intervals must "
        "not overlap"
    )
    adaptive = (TRUE, ADAPTIVE, FROM_NEAR, NEAR, COMPLETE)
    lagged = {name: rows for name, rows in summary.items() if LAGGED in rows}
    rows_of_claims = [
        Claim(
            claim=(
                "An adaptive network is never significantly worse than the better of the complete network and its "
                "initial network."
            ),
            **head,
            ours=said(adaptive, "area"),
            verdict=verdict(
                *(not worse(rows, ADAPTIVE, (COMPLETE,)) for rows in summary.values()),
                *(not worse(rows, FROM_NEAR, (COMPLETE, NEAR)) for rows in summary.values() if FROM_NEAR in rows),
            ),
            note=note,
        ),
        Claim(
            claim=(
                "With few samples, an adaptive network that starts with all edges learns faster than the complete "
                "network."
            ),
            **head,
            ours=said((ADAPTIVE, COMPLETE), "area"),
            verdict=verdict(*(better(rows, ADAPTIVE, COMPLETE) for rows in summary.values())),
            note=note,
        ),
        Claim(
            claim="A discovered network is as good as the true one.",
            **head,
            ours=said((TRUE, DISCOVERED), "area"),
            verdict=verdict(*(not worse(rows, DISCOVERED, (TRUE,)) for rows in summary.values())),
            note=note,
        ),
    ]
    if lagged:
        rows_of_claims.append(
            Claim(
                claim=(
                    "Crediting by lag is no worse than the same network without lags, and better where influence is "
                    "delayed."
                ),
                **head,
                ours=said((LAGGED, TRUE), "area", lagged),
                verdict=verdict(
                    *(not worse(rows, LAGGED, (TRUE,)) for rows in lagged.values()),
                    *(better(rows, LAGGED, TRUE) for name, rows in lagged.items() if name == "parcels"),
                ),
                note=note,
            )
        )
    return rows_of_claims


EXPERIMENT = Experiment.of(
    __name__,
    title="Learning with a true, a lagged, a discovered, an adaptive, a near and a complete network",
    paper="Beyond the paper",
    budgets={"quick": Settings(("switches", "parcels"), seeds=3, share=0.5), "paper": Settings()},
)
