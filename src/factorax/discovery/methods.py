"""The methods of discovery by name: their guarantees, and which of them use a threshold."""

from typing import Literal

MethodName = Literal["interventional", "score", "dependence", "predictive", "gated"]
TargetKind = Literal["one-step", "return"]
Loop = Literal["open", "closed"]

PROMISES: dict[str, str] = {
    "interventional": "an edge was observed with everything else held fixed; a pair without an edge was changed as "
    "often as its samples tell and the target never moved, which bounds how often it can move, but proves nothing "
    "about other states",
    "score": "the absence of an edge is refuted; a pair without an edge is not proved absent: effects that do not "
    "shift the mean, such as ψ = a², and effects too small for the samples, are missed",
    "dependence": "the absence of an edge of any form is refuted; missed are effects too small for the "
    "samples, and those that average out over the other actions, such as the parity of two bits",
    "predictive": "an edge helps a model to predict its target; thresholds are set by hand, no error rate is known, "
    "and effects that the model cannot express are missed",
    "gated": "a critic that is penalised for using actions kept those of its edges; products of two actions are "
    "found, weak effects and joint effects of three are not, and no error rate is known",
}
"""The guarantee of each method for an edge, and for a pair without one."""

SHIFTED = (
    "the random numbers were not held fixed, so a target may move because other numbers were drawn. For an edge, the "
    "hypothesis that the target's distribution does not depend on the action is refuted by tests over seeds, at the "
    "stated false-discovery rate; a pair without an edge never moved, or moved no more than chance explains"
)
"""The guarantee of interventions if random streams shift or cannot be observed."""

WITHOUT_P_VALUES = ("predictive", "gated")
"""Methods without tests: an edge is an effect above a threshold, and no error rate is known."""
THRESHOLD: dict[str, float] = {"gated": 0.5}
"""Default thresholds of these methods: a gate counts as an edge if it is more likely open than closed."""
