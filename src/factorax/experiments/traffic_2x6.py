"""Fig. 5b: PPO on 2×6 traffic lights, each credited with the streets of n columns to either side."""

from itertools import pairwise
from typing import Any

from ..runs.statistics import Interval
from .harness import traffic_study, trainings
from .harness.claims import Claim, verdict
from .harness.traffic_study import SHARED, Settings

OPTIONS = {f"n = {n}": (*SHARED, "--network", f"n-level:{n}") for n in range(6)}
OPTIONS |= {"all streets": (*SHARED, "--network", "complete")}


def claims(settings: Settings, summary: dict[str, Any]) -> list[Claim]:
    """Returns the claim: the wider the window, the worse."""
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
            claim="On 2×6 lights, performance decreases with the number of columns n that a light is credited with.",
            where="Fig. 5b",
            paper="learning curves, without numbers",
            ours=(
                f"mean return over all of training, interquartile mean of {settings.seeds} seeds: {said('area')}; over "
                f"its last tenth, in which some runs collapse: {said('training')}"
            ),
            verdict=verdict(*ends, not rises, falls),
        )
    ]


EXPERIMENT = traffic_study.experiment(
    2,
    6,
    options=OPTIONS,
    quick=("n = 0", "n = 2", "all streets"),
    figure_of_paper="Fig. 5b",
    result_of_paper="the fewer columns n, the better",
    claims=claims,
)
