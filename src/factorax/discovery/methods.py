"""The methods of discovery by name: what each promises, and which of them go by a threshold."""

from typing import Literal

MethodName = Literal["interventional", "score", "dependence", "predictive", "gated"]
TargetKind = Literal["one-step", "return"]
Loop = Literal["open", "closed"]

PROMISES: dict[str, str] = {
    "interventional": "an edge was seen to act, the rest of the world held fixed; a pair without one was changed as "
    "often as its samples say and the target never moved, which bounds how often it can, and proves nothing of other "
    "states",
    "score": "that an edge is absent is refuted; a pair without one is not proved absent: effects that do not shift "
    "the mean, such as ψ = a², and effects too small for the samples, stay unseen",
    "dependence": "that an edge is absent is refuted, whatever its form; unseen stay effects too small for the "
    "samples, and those that vanish on average over the other actions, such as the parity of two bits",
    "predictive": "an edge helps a model to predict its target; thresholds are set by hand, no error rate is known, "
    "and what the model cannot express stays unseen",
    "gated": "a critic that has to do without most actions kept those of its edges; products of two actions are seen, "
    "weak effects and what three do together are not, and no error rate is known",
}
"""What each method says of an edge, and of a pair without one."""

SHIFTED = (
    "the random numbers were not held fixed, and a target may move because others were drawn. For an edge, that the "
    "target's distribution does not depend on the action is refuted by tests over seeds, at the stated false-discovery "
    "rate; a pair without an edge never moved, or moved no more than chance explains"
)
"""What interventions say where random streams shift, or cannot be seen."""

WITHOUT_P_VALUES = ("predictive", "gated")
"""Methods without tests: an edge is an effect above a threshold, and no error rate is known."""
THRESHOLD: dict[str, float] = {"gated": 0.5}
"""Default thresholds of such methods: a gate counts as an edge if it is open more often than closed."""
