"""Fig. 5a: PPO on 3×3 traffic lights, credited with near streets or with everything."""

from typing import Any

from factorax.runs.statistics import Interval

from ..harness import traffic_study, trainings
from ..harness.claims import Claim, verdict
from ..harness.traffic_study import CHOSEN_BY, Method, Settings

JOINT, GLOBAL, LOCAL, CORRIDOR = "joint, global", "shared, global", "shared, local", "shared, corridor"
METHODS = {
    LOCAL: Method("incident"),
    GLOBAL: Method("complete"),
    JOINT: Method(joint=True),
    CORRIDOR: Method("corridor"),
}


def claims(settings: Settings, summary: dict[str, Any]) -> list[Claim]:
    """Return the claims: faster learning, and a better final policy."""
    rows = summary["methods"]
    others = [method for method in (GLOBAL, JOINT) if method in rows]
    if LOCAL not in rows or not others:
        return []

    def said(score: str) -> str:
        return "; ".join(f"{m} {trainings.shown(rows[m][score])}" for m in (LOCAL, *others) if rows[m][score])

    def claim(text: str, score: str, measured: str) -> Claim:
        ahead = [Interval(**rows[LOCAL][score]).low > Interval(**rows[m][score]).high for m in others]
        sizes = f"{settings.seeds} seeds of {settings.iterations} iterations of {settings.n_envs} episodes"
        return Claim(
            claim=text,
            where="Fig. 5a",
            paper="learning curves, without numbers",
            ours=f"{measured}; {sizes}, preset {settings.preset}",
            verdict=verdict(*ahead),
            chosen_by=CHOSEN_BY,
            would_settle="more iterations, and more seeds of the methods whose intervals overlap",
        )

    return [
        claim(
            "On 3×3 lights, a shared policy with the local baseline learns faster than with the global reward.",
            "area",
            f"mean return over all of training, interquartile mean of seeds: {said('area')}",
        ),
        claim(
            "On 3×3 lights, it ends with a better policy.",
            "training",
            f"return over the last tenth of training: {said('training')}; with most probable actions in SUMO: "
            f"{said('sumo') or 'not measured'}",
        ),
    ]


EXPERIMENT = traffic_study.experiment(
    3,
    3,
    methods=METHODS,
    quick=(LOCAL, GLOBAL, JOINT),
    figure_of_paper="Fig. 5a",
    result_of_paper="near streets learn faster and end better",
    claims=claims,
)
