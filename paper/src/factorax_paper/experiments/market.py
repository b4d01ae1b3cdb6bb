"""A dealer who quotes on n assets: grouping of quotes into factors, as a fraction of the optimum (Sec. 4.2).

Bid and ask of an asset influence the same targets, so the minimum factorisation groups them. On 1 to 1000 assets they
are trained as separate factors, as groups with a diagonal and with a full covariance, and as one joint action. All
methods have the same policy network, which observes an asset's own inventory, the same steps and seeds, and the same
settings except for the learning rate, which is tuned for each method on each market with the same number of trials.

If no penalty couples the assets, the score is exact: the value of the most probable quotes relative to the optimal
value, both by dynamic programming. With a portfolio term it is the mean return of many episodes relative to that of
the closed form of Bergault, Evangelista, Guéant and Vieira (2021).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from factorax.problems import find_problem
from factorax.runs.statistics import Interval, iqm, iqm_difference

from ..harness import plots, trainings
from ..harness.claims import OURS, Claim, verdict
from ..harness.experiment import Experiment
from ..harness.market_runs import EPISODES, MarketRuns
from ..harness.market_runs import learned_quotes as learned_quotes
from ..harness.parts import Arrays, Part
from ..harness.table import Table, from_rows, where
from ..harness.trainings import process
from ..market import ClosedForm, Market, optimum, play

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "singletons": ("singletons", {}),
    "minimum, diagonal": ("minimum", {}),
    "minimum, full": ("minimum", {"distribution": "scale,std=full"}),
    "joint": ("singletons", {"method": "ppo", "policy": "shared"}),
}
"""Network and settings of every method. PPO has one ratio and one advantage for all quotes, with any network."""
TIED = "risk_aversion=0.5,correlation=0.5,running_penalty=0.02"
POINTS = 40


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiment."""

    assets: tuple[int, ...] = (1, 10, 100, 1000)
    tied: tuple[int, ...] = (2, 10)
    """Numbers of assets coupled by a portfolio term."""
    seeds: int = 10
    updates: int = 300
    rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3, 1e-2)
    """Learning rates that are tried for every method on every market."""
    tuning: int = 2
    """Seeds of each trial; they come before those that are reported."""


@dataclass(frozen=True)
class Case:
    """A market, and the settings that depend on its size."""

    assets: int
    tied: bool

    @property
    def name(self) -> str:
        """Name in the table and the figure; never only a number, which a CSV file would not keep as text."""
        return f"{self.assets}{' tied' if self.tied else ''} {'asset' if self.assets == 1 else 'assets'}"

    @property
    def problem(self) -> str:
        """Name for `find_problem`."""
        return f"market:{self.assets},{TIED}" if self.tied else f"market:{self.assets}"

    @property
    def n_envs(self) -> int:
        """Number of environments: fewer assets need more episodes for as many samples."""
        return 128 if self.assets < 10 else 16 if self.assets <= 100 else 4


def cases(settings: Settings) -> list[Case]:
    """Return the markets: independent assets, and coupled assets."""
    return [Case(n, False) for n in settings.assets] + [Case(n, True) for n in settings.tied]


def plan(settings: Settings, seed: int) -> list[tuple[str, MarketRuns]]:
    """Return the runs: every method on every market."""
    runs = []
    for case in cases(settings):
        sizes = {"n_envs": case.n_envs, "batch_size": case.n_envs * 50 // 8}
        for method, (network, options) in METHODS.items():
            of_method = MarketRuns(
                problem=case.problem,
                network=network,
                settings=sizes | options,
                updates=settings.updates,
                rates=settings.rates,
                first=seed * (settings.tuning + settings.seeds),
                tuning=settings.tuning,
                seeds=settings.seeds,
            )
            runs.append((f"{case.name} {method}", of_method))
    return runs


def parts(settings: Settings, seed: int) -> list[Part]:
    """Return one part, and one process, for each method on each market."""

    def part(name: str, runs: MarketRuns) -> Part:
        file = name.replace(",", "").replace(" ", "-")
        return Part(name, float(settings.updates), process(file, "market_runs", runs))

    return [part(name, runs) for name, runs in plan(settings, seed)]


def yardstick(case: Case) -> float:
    """Return the optimal value or, for coupled assets, the return of the closed form."""
    problem: Market = find_problem(case.problem)
    if problem.model.is_independent:
        return optimum(problem.model).value
    return float(play(problem, ClosedForm(problem.model).rule, episodes=EPISODES).sum(axis=1).mean())


def tabulate(settings: Settings, seed: int, results: list[Arrays]) -> Table:
    """Return one row per run and point of its curve; percentages are relative to the optimum or the closed form."""
    rows = []
    outcomes = iter(zip(plan(settings, seed), results, strict=True))
    for case in cases(settings):
        best = yardstick(case)
        for method in METHODS:
            (_, runs), result = next(outcomes)
            for i in range(runs.seeds):
                points = min(POINTS, len(result["steps"][i]))
                split = (np.array_split(result[key][i], points) for key in ("steps", "returns"))
                rows += [
                    {
                        "market": case.name,
                        "method": method,
                        "seed": runs.first + runs.tuning + i,
                        "rate": float(result["rate"]),
                        "steps": int(steps[-1]),
                        "training": 100 * float(returns.mean()) / best,
                        "final": 100 * float(result["value"][i]) / best,
                    }
                    for steps, returns in zip(*split, strict=True)
                ]
    return from_rows(rows)


def finals(table: Table, case: Case, method: str) -> np.ndarray:
    """Return the final percentage of each seed."""
    rows = where(table, market=case.name, method=method)
    return np.array([where(rows, seed=seed)["final"][0] for seed in np.unique(rows["seed"])])


def training(table: Table, case: Case, method: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps of a curve and the percentages of each seed, ``(seeds, points)``."""
    rows = where(table, market=case.name, method=method)
    by_seed = [where(rows, seed=seed) for seed in np.unique(rows["seed"])]
    return by_seed[0]["steps"], np.stack([each["training"] for each in by_seed])


def summarise(settings: Settings, table: Table) -> dict[str, Any]:
    """Return interquartile means over seeds of final percentages and of all training, and leads over singletons."""
    summary: dict[str, Any] = {}
    for case in cases(settings):
        final = {method: finals(table, case, method) for method in METHODS}
        areas = {method: training(table, case, method)[1].mean(axis=1) for method in METHODS}
        diagonal = "minimum, diagonal"
        summary[case.name] = {
            method: {
                "final": vars(iqm(final[method])),
                "worst": float(final[method].min()),
                "rate": float(where(table, market=case.name, method=method)["rate"][0]),
                "training": vars(iqm(areas[method])),
                "final of the minimum less": vars(iqm_difference(final[diagonal], final[method])),
                "training of the minimum less": vars(iqm_difference(areas[diagonal], areas[method])),
            }
            for method in METHODS
        }
    return summary


def draw(settings: Settings, table: Table, summary: dict[str, Any]) -> Figure:
    """Plot one panel per market: percentages of the optimum during training, and final policies at the right."""
    shown = cases(settings)
    columns = min(3, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure = Figure(figsize=(3.6 * columns + 0.6, 3.1 * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax in axes[len(shown) :]:
        ax.remove()
    handles = []
    for ax, case in zip(axes, shown, strict=False):
        handles = []
        for i, (method, colour) in enumerate(zip(METHODS, plots.PALETTE, strict=False)):
            steps, percent = training(table, case, method)
            handles.append(trainings.plot_returns(ax, steps, percent, color=colour, label=method))
            final = Interval(**summary[case.name][method]["final"])
            plots.point(ax, steps[-1] * (1.04 + 0.04 * i), final, color=colour, markersize=4)
        # Not a bound with portfolio risk: the closed form is for continuous time, and is no optimum in steps.
        ax.axhline(100, color="#777777", linestyle=":", linewidth=1)
        ends = [summary[case.name][method]["final"]["low"] for method in METHODS]
        ax.set_ylim(min(50.0, min(ends) - 5), 105)
        noun = "asset" if case.assets == 1 else "assets"
        name = f"{case.assets:,} {noun}" + (", portfolio risk" if case.tied else "")
        ax.set(title=name, xlabel="steps (dots: final policy)")
        ax.set_ylabel("% of the closed form" if case.tied else "% of the optimum")
        ax.ticklabel_format(axis="x", style="sci", scilimits=(0, 4))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(METHODS), frameon=False)
    return figure


def _shown(name: str) -> str:
    """Return the name of a market in claims; tables of earlier runs have "tied"."""
    return name.replace(" tied ", " coupled ")


def claims(settings: Settings, summary: dict[str, Any]) -> list[Claim]:
    """Return the claims on factored policies, joint policies and the covariance."""
    budget = f"{settings.seeds} seeds, interquartile means with 95 % intervals"
    chosen = "we chose the market, its parameters, networks and budgets; the paper has no such experiment"

    def said(score: str, *methods: str) -> str:
        return "; ".join(
            f"{_shown(name)}: " + ", ".join(f"{m} {trainings.shown(rows[m][score])}" for m in methods)
            for name, rows in summary.items()
        )

    def lead(name: str, method: str, score: str) -> Interval:
        return Interval(**summary[name][method][f"{score} of the minimum less"])

    several = [case.name for case in cases(settings) if case.assets >= 10]
    independent = [case.name for case in cases(settings) if not case.tied]
    near = [Interval(**summary[name]["minimum, diagonal"]["final"]).low >= 95 for name in independent]
    joint = [lead(name, "joint", "final").low > 0 for name in several]
    full = [lead(name, "minimum, full", "training").high < 0 for name in summary]
    rates = "; ".join(
        f"{_shown(name)}: " + ", ".join(f"{m} {rows[m]['rate']:g}" for m in ("minimum, diagonal", "joint"))
        for name, rows in summary.items()
    )
    common: dict[str, Any] = OURS | {"chosen_by": chosen}
    return [
        Claim(
            claim="With the minimum factorisation, PPO reaches 95 % of the optimal value of a market of any size.",
            **common,
            ours=f"percent of the optimum, {budget}: {said('final', 'singletons', 'minimum, diagonal')}",
            verdict=verdict(*near),
            would_settle="more steps where it falls short",
            note="Coupled assets are compared with a closed form, not the optimum, and do not count for the verdict.",
        ),
        Claim(
            claim="With ten assets or more, a joint policy ends below the minimum factorisation.",
            **common,
            ours=f"percent of the optimum, {budget}: {said('final', 'minimum, diagonal', 'joint')}",
            verdict=verdict(*joint),
            would_settle="more seeds where the interval of the lead contains 0",
            note=f"A lead counts if its interval is above 0. Policy networks and steps are the same. Every method has "
            f"the best of {len(settings.rates)} learning rates on each market, by {settings.tuning} seeds that are not "
            f"reported: {rates}. Joint policies have one value of all inventories as critic, others one for each "
            "factor; which of the differences makes the lead was not tested.",
        ),
        Claim(
            claim="A full covariance within the groups of the minimum factorisation learns faster than a diagonal one.",
            **common,
            ours=f"percent over all of training, {budget}: {said('training', 'minimum, diagonal', 'minimum, full')}",
            verdict=verdict(*full),
            would_settle="more seeds where the interval of the lead contains 0",
            note="The paper names pairs of prices as an example of grouped actions (4.2), and tries none. A lead "
            "counts if its whole interval is above 0. A covariance only changes how a policy explores.",
        ),
    ]


EXPERIMENT = Experiment.of(
    __name__,
    title="A dealer's quotes as factors: singletons, pairs or one joint action, in percent of the optimum",
    paper="Sec. 4.2",
    budgets={"quick": Settings((1, 10), (), seeds=3, updates=200), "paper": Settings()},
)
