"""Fig. 5a: PPO on 3×3 traffic lights, each credited with near streets, or all with everything."""

from typing import Any

from ..runs.statistics import Interval
from .harness import traffic_study, trainings
from .harness.claims import Claim, verdict
from .harness.traffic_study import SHARED, Settings

JOINT, GLOBAL, LOCAL = "joint, global", "shared, global", "shared, local"
CORRIDOR, TARGETS = "shared, corridor", "shared, local, a critic a street"
SMALL_GLOBAL, SMALL_LOCAL = "shared, global, small batches", "shared, local, small batches"
OPTIONS: dict[str, tuple[str, ...]] = {
    LOCAL: (*SHARED, "--network", "incident"),
    GLOBAL: (*SHARED, "--network", "complete"),
    JOINT: ("--policy", "joint", "--estimator", "vanilla", "--critic", "factor"),
    CORRIDOR: (*SHARED, "--network", "corridor"),
    TARGETS: (*SHARED, "--network", "incident", "--critic", "target"),
    SMALL_GLOBAL: (*SHARED, "--network", "complete"),
    SMALL_LOCAL: (*SHARED, "--network", "incident"),
}


def claims(settings: Settings, summary: dict[str, Any]) -> list[Claim]:
    """Returns the claims: faster, and better in the end."""
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
            claim="On 3×3 lights, a shared policy with the local baseline learns faster than with the global reward.",
            where="Fig. 5a",
            paper="learning curves, without numbers",
            ours=f"mean return over all of training, interquartile mean of seeds: {said('area')}; {note}",
            verdict=verdict(*ahead("area")),
        ),
        Claim(
            claim="On 3×3 lights, it ends with a better policy.",
            where="Fig. 5a",
            paper="learning curves, without numbers",
            ours=f"return over the last tenth of training: {said('training')}; {note}",
            verdict=verdict(*ahead("training")),
        ),
    ]


EXPERIMENT = traffic_study.experiment(
    3,
    3,
    options=OPTIONS,
    quick=(LOCAL, GLOBAL, JOINT),
    figure_of_paper="Fig. 5a",
    result_of_paper="near streets learn faster and end better",
    claims=claims,
)
