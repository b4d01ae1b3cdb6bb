"""Names of the discovery methods, their guarantees, and which of them use a threshold."""

from typing import Literal

MethodName = Literal["interventional", "score", "dependence", "gated"]
TargetKind = Literal["one-step", "return"]
Loop = Literal["open", "closed"]

PROMISES: dict[str, str] = {
    "interventional": "an edge was observed with everything else held fixed; for a pair without an edge, the action "
    "was changed in as many runs as there are samples and the target never changed by more than the tolerance, which "
    "bounds how often it can change, but proves nothing about states that were not visited",
    "score": "for an edge, independence is rejected; a pair without an edge is not proved independent: effects that "
    "do not shift the mean, such as ψ = a², and effects too weak for the number of samples are missed",
    "dependence": "for an edge, independence is rejected, for effects of any form; effects too weak for the number "
    "of samples and effects that average out over the other actions, such as the parity of two bits, are missed",
    "gated": "an edge is an action that a critic kept although it is penalised for using actions; joint effects of "
    "two actions are found, weak effects and joint effects of three are not, and no error rate is known",
}
"""The guarantee of each method for an edge, and for a pair without one."""

SHIFTED = (
    "the random numbers were not held fixed, so a target may change because other numbers were drawn. For an edge, "
    "tests over seeds reject that the target's distribution is independent of the action, at the stated "
    "false-discovery rate; for a pair without an edge, the target never changed, or changed no more than chance "
    "explains"
)
"""The guarantee of interventions if random streams shift or cannot be observed."""

THRESHOLD: dict[str, float] = {"gated": 0.5}
"""Methods without p-values, for which no error rate is known, and the effect above which they have an edge: a gate
counts as an edge if it is more likely open than closed."""
