"""Curriculum learning on influence networks (Sec. 4.1): edges are added during training, compared with each network
alone.

There are two problems: nine traffic lights, credited first with their own streets, then with their row and column, then
with everything; and parcels, credited first with their own end, then with all that they pay. All methods of a problem
have the same settings, steps, seeds and a critic of each target, which does not depend on the network: only the network
changes between stages.
"""

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from factorax.runs.statistics import Interval, iqm, iqm_difference

from ..harness import plots, trainings
from ..harness.claims import Claim, verdict
from ..harness.experiment import Experiment
from ..harness.parts import Arrays
from ..harness.table import Table, where
from ..harness.trainings import Training, train

CURRICULUM = "curriculum"


@dataclass(frozen=True)
class Comparison:
    """A problem with its networks in the order of the curriculum."""

    problem: str
    networks: tuple[str, ...]
    """Names as for ``factorax train --network``, from few edges to many."""
    steps: int
    """Number of training steps, summed over all environments, with the budget ``"paper"``."""
    options: str
    log_scale: bool = False
    """Whether the figure shows returns on a logarithmic scale: for returns that approach 0 from below."""

    @property
    def methods(self) -> dict[str, str]:
        """Names of the curriculum and of the fixed networks, with the values of ``--network``."""
        return {CURRICULUM: f"curriculum:{','.join(self.networks)}"} | {name: name for name in self.networks}


CASES = {
    "traffic": Comparison(
        problem="traffic:3x3,slots=20",
        networks=("incident", "corridor", "complete"),
        steps=6400 * 150,
        options=(
            "--n-envs 16 --n-steps 400 --batch-size 320 --n-epochs 5 --hidden 32 32 32 --gamma 0.95 --gae-lambda "
            "0.95 --learning-rate 1e-3 --ent-coef 0.05 --anneal learning_rate ent_coef --policy shared"
        ),
    ),
    "parcels": Comparison(
        problem="chain:16,delay=8",
        networks=("near", "own"),
        steps=320 * 100,
        options=(
            "--n-envs 16 --n-steps 20 --batch-size 80 --n-epochs 4 --hidden 32 --learning-rate 3e-3 --policy "
            "shared,identity=8 --distribution clip"
        ),
        log_scale=True,
    ),
}
SHOWN = {"near": "near", "own": "true"}
"""Names of networks in the text, if they differ."""


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiment."""

    cases: tuple[str, ...] = tuple(CASES)
    seeds: int = 10
    share: float = 1.0
    """Fraction of the steps."""


def plan(settings: Settings, seed: int) -> list[Training]:
    """Return the runs: each method of each problem, with all seeds in one program."""
    runs = []
    for name in settings.cases:
        case = CASES[name]
        for method, network in case.methods.items():
            # A critic of targets predicts the same with every network, so that it survives a change of stage.
            options = (*case.options.split(), "--critic", "target", "--no-check-network", "--network", network)
            steps = round(case.steps * settings.share)
            first, seeds = seed * settings.seeds, settings.seeds
            runs.append(train(f"{name}, {method}", case.problem, *options, seed=first, steps=steps, seeds=seeds))
    return runs


def tabulate(settings: Settings, seed: int, results: list[Arrays]) -> Table:
    """Return one row per run and point of its curve."""
    return trainings.curves(plan(settings, seed), results)


def summarise(settings: Settings, table: Table) -> dict[str, Any]:
    """Return interquartile means over seeds of all training and of its last tenth, and the lead of the curriculum."""
    summary: dict[str, Any] = {}
    for name in settings.cases:
        groups = {m: trainings.group(where(table, method=f"{name}, {m}"), m) for m in CASES[name].methods}
        scores = {m: {"area": group.returns.mean(axis=1), "end": group.final} for m, group in groups.items()}
        summary[name] = {
            m: {score: vars(iqm(values)) for score, values in of_method.items()}
            | {
                f"{score} of {CURRICULUM} less": vars(iqm_difference(scores[CURRICULUM][score], values))
                for score, values in of_method.items()
                if m != CURRICULUM
            }
            | {"seeds": len(of_method["end"])}
            for m, of_method in scores.items()
        }
    return summary


def draw(settings: Settings, table: Table, summary: dict[str, Any]) -> Figure:
    """Plot learning curves, one panel per problem, with dotted lines where the next network starts."""
    figure, axes = plots.canvas(len(settings.cases), width=5.4 * len(settings.cases) + 1.2, height=3.8)
    for ax, name in zip(axes, settings.cases, strict=True):
        case, steps = CASES[name], round(CASES[name].steps * settings.share)
        for method, colour in zip(case.methods, plots.PALETTE, strict=False):
            group = trainings.group(where(table, method=f"{name}, {method}"), method)
            label = " → ".join(map(_shown, case.networks)) if method == CURRICULUM else _shown(method)
            trainings.plot_returns(ax, group.steps, group.returns, color=colour, label=label)
        for i in range(1, len(case.networks)):
            ax.axvline(steps * i / len(case.networks), color="#777777", linestyle=":", linewidth=1)
        ax.set(title=name, xlabel="steps of all environments", ylabel="return of an episode")
        ax.ticklabel_format(axis="x", style="sci", scilimits=(0, 4))
        if case.log_scale:
            ax.set_yscale("symlog", linthresh=1)
            ax.set_ylim(top=-2)
        ax.legend(fontsize=8, framealpha=1, edgecolor="white", loc="lower right")
    return figure


def _shown(network: str) -> str:
    return SHOWN.get(network, network)


def claims(settings: Settings, summary: dict[str, Any]) -> list[Claim]:
    """Return the claims: the curriculum ends better than each network alone, and learns faster than the densest."""

    def said(score: str) -> str:
        return "; ".join(
            f"{name}: " + ", ".join(f"{_shown(m)} {trainings.shown(row[score])}" for m, row in rows.items())
            for name, rows in summary.items()
        )

    def lead(name: str, method: str, score: str) -> Interval:
        return Interval(**summary[name][method][f"{score} of {CURRICULUM} less"])

    def leads(score: str, networks: dict[str, tuple[str, ...]]) -> str:
        return "; ".join(
            f"{name}: " + ", ".join(f"{lead(name, m, score)} over {_shown(m)}" for m in each)
            for name, each in networks.items()
        )

    every = {name: CASES[name].networks for name in summary}
    densest = {name: (CASES[name].networks[-1],) for name in summary}
    head: dict[str, Any] = {"where": "Sec. 4.1", "paper": "proposed in one sentence, not tested"}
    ours = "we chose the problems, networks, stages of equal length and budgets; the paper names none"
    budget = f"{settings.seeds} seeds, interquartile means with 95 % intervals"
    rows = []
    for claim, score, measure, networks in (
        (
            "A curriculum over influence networks of increasing connectedness ends better than each of them alone.",
            "end",
            "return over the last tenth of training",
            every,
        ),
        (
            "A curriculum over influence networks of increasing connectedness learns faster than the last of them "
            "alone.",
            "area",
            "mean return over all of training",
            densest,
        ),
    ):
        tests = [lead(name, m, score).low > 0 for name, each in networks.items() for m in each]
        rows.append(
            Claim(
                claim=claim,
                **head,
                ours=f"{measure}, {budget}: {said(score)}. Lead of the curriculum: {leads(score, networks)}",
                verdict=verdict(*tests),
                chosen_by=ours,
                would_settle="more seeds where the interval of the lead contains 0; other stages where it is below 0",
                note="A lead counts if its whole interval is above 0. All methods have the same settings, steps, "
                "seeds and critic.",
            )
        )
    return rows


parts = trainings.trainings(plan)
EXPERIMENT = Experiment.of(
    __name__,
    title="Networks of increasing connectedness in turn, compared with each network alone",
    paper="Sec. 4.1",
    budgets={"quick": Settings(("parcels",), seeds=5, share=0.5), "paper": Settings()},
)
