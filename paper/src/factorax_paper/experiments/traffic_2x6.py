"""Fig. 5b: PPO on 2×6 traffic lights, each credited with the streets of n columns to either side.

The paper does not say whether the columns are those of a light's own row or of both, and Flow's grid has two defects
that only affect 2×6 lights (`Traffic.flow_order`, `Traffic.flow_inflows`). There are therefore three families of
methods.
"""

from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from factorax.runs.statistics import Interval

from ..harness import plots, traffic_study, trainings
from ..harness.claims import Claim, verdict
from ..harness.table import Table
from ..harness.traffic_study import CHOSEN_BY, Method, Settings

ALL = "all streets"
FLOW = ",flow_order=true,flow_inflows=true"
OWN_ROW = {f"n = {n}": Method(f"n-level:{n}") for n in range(6)} | {ALL: Method("complete")}
BOTH_ROWS = {f"n = {n}, both rows": Method(f"n-level-all-rows:{n}") for n in range(5)}
IN_FLOW = {f"{name}, Flow": Method(method.network, problem=FLOW) for name, method in OWN_ROW.items()}
METHODS = OWN_ROW | BOTH_ROWS | IN_FLOW
FAMILIES = {
    "a light's own row": tuple(OWN_ROW),
    "both rows": (*BOTH_ROWS, ALL),  # five columns of both rows are all streets
    "with Flow's defects": tuple(IN_FLOW),
}
"""The methods for each reading of "n columns", by increasing n."""


def claims(settings: Settings, summary: dict[str, Any]) -> list[Claim]:
    """Return one claim per family: the wider the window, the worse."""
    present = {family: [m for m in methods if m in settings.methods] for family, methods in FAMILIES.items()}
    return [_claim(settings, summary, family, names) for family, names in present.items() if len(names) > 1]


def _claim(settings: Settings, summary: dict[str, Any], family: str, names: list[str]) -> Claim:
    rows = [summary["methods"][name] for name in names]
    areas, lates = ([Interval(**row[score]) for row in rows] for score in ("area", "training"))
    # Neighbouring n may be equal within their intervals, but none may rise by more than that.
    ends = [scores[0].low > scores[-1].high for scores in (areas, lates)]
    rises = any(b.low > a.high for scores in (areas, lates) for a, b in pairwise(scores))
    falls = all(a.mean > b.mean for a, b in pairwise(lates))

    def said(score: str) -> str:
        texts = [f"{m} {trainings.shown(row[score])}" for m, row in zip(names, rows, strict=True) if row[score]]
        return "; ".join(texts) or "not measured"

    return Claim(
        claim=(
            "On 2×6 lights, performance decreases with the number of columns n that a light is credited with "
            f"({family})."
        ),
        where="Fig. 5b",
        paper="plot of final values over n, without numbers",
        ours=(
            f"return over the last tenth of training, interquartile mean of {settings.seeds} seeds: "
            f"{said('training')}; over all of training: {said('area')}; with most probable actions in SUMO: "
            f"{said('sumo')}; {settings.iterations} iterations of {settings.n_envs} episodes, preset "
            f"{settings.preset}"
        ),
        verdict=verdict(*ends, not rises, falls),
        chosen_by=f"{CHOSEN_BY}, and that means fall from each n to the next, with no rise larger than an interval",
        would_settle="more seeds for neighbouring n, whose intervals overlap",
    )


def draw(settings: Settings, table: Table, summary: dict[str, Any]) -> Figure:
    """Plot learning curves, and values by n as in the paper, at the end of training and of final policies."""
    figure, (left, middle, right) = plots.canvas(3, width=14, height=4.2)
    traffic_study.curves(left, table, tuple(name for name in OWN_ROW if name in settings.methods))
    left.legend(fontsize=7, loc="lower right")
    score = traffic_study.final_score(summary)
    _against_n(middle, settings, summary, "training")
    middle.set(title="last tenth of training")
    _against_n(right, settings, summary, score)
    right.set(title=f"final policies, in {'SUMO' if score == 'sumo' else 'lanes'}")
    middle.legend(fontsize=8)
    figure.suptitle(traffic_study.title(settings, "2x6", "the fewer columns n, the better"), fontsize=10)
    return figure


def _against_n(ax: Axes, settings: Settings, summary: dict[str, Any], score: str) -> None:
    last = len(OWN_ROW) - 1
    for shift, ((family, names), colour) in enumerate(zip(FAMILIES.items(), plots.PALETTE, strict=False)):
        methods = [(x, name) for x, name in enumerate(names) if name in settings.methods]
        rows = [summary["methods"][name][score] for _, name in methods]
        at = [(last if name.startswith(ALL) else x) + 0.08 * (shift - 1) for x, name in methods]
        errors = [[row["mean"] - row["low"] for row in rows], [row["high"] - row["mean"] for row in rows]]
        means = [row["mean"] for row in rows]
        ax.errorbar(at, means, errors, fmt="o-", color=colour, label=family, capsize=2, linewidth=1)
    ax.set_xticks(range(last + 1), [*map(str, range(last)), "all"])
    ax.set(xlabel="n, columns to either side")


EXPERIMENT = traffic_study.experiment(
    2,
    6,
    methods=METHODS,
    quick=("n = 0", "n = 2", ALL),
    figure_of_paper="Fig. 5b",
    result_of_paper="the fewer columns n, the better",
    claims=claims,
    draw=draw,
)
