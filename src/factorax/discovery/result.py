"""What discovery gives: for every pair of an action and a target the effect, the p-value and what stands behind it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from .._rates import Control, adjusted, discoveries
from ..structure import InfluenceNetwork

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Method = Literal["interventional", "score", "dependence", "predictive", "gated"]
Kind = Literal["one-step", "return"]
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

WITHOUT_P_VALUES = ("predictive", "gated")
"""Methods that test nothing: an edge is an effect above a threshold, and no error rate is known."""
THRESHOLD: dict[str, float] = {"gated": 0.5}
"""Of such methods, where one suits all data: a gate is rather open than closed."""


@dataclass(frozen=True, eq=False, repr=False)
class Discovery:
    """An influence network with the evidence for each of its edges.

    A network of one step says what an action changes at once, and biases the gradient of returns where influence comes
    later; `InfluenceNetwork.close_over` leads from the one to the other.

    >>> found = Discovery("score", "return", effect=np.eye(2), p_value=np.array([[1e-4, 0.5], [0.9, 2e-4]]),
    ...                   samples=np.full((2, 2), 100))
    >>> found.network(fdr=0.05) == InfluenceNetwork.identity(2)
    True
    >>> found.confidence.round(3)
    array([[1.   , 0.333],
           [0.1  , 1.   ]])
    """

    method: Method
    kind: Kind
    """Of what the targets were: rewards of one step, or returns."""
    effect: np.ndarray
    """How strong, in the method's own unit (`effect_unit`), ``(n, m)``."""
    p_value: np.ndarray
    """Of the hypothesis that there is no edge, ``(n, m)``; NaN where nothing was tested."""
    samples: np.ndarray
    """How many samples or re-runs stand behind it, ``(n, m)``."""
    actions: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    loop: Loop = "closed"
    """Whether later actions were replayed (open), or answered to what they saw (closed)."""
    effect_unit: str = ""
    notes: tuple[str, ...] = ()
    """What a reader should know: what was skipped, what the samples can tell."""
    steps: int = 0
    """Of the simulator, all told."""
    also: Mapping[str, "Discovery"] = field(default_factory=dict)
    """The other networks of the same interventions, by name: ``one-step``, ``open-loop``."""

    def __post_init__(self) -> None:
        shape = np.shape(self.effect)
        for name in ("effect", "p_value", "samples"):
            if np.ndim(getattr(self, name)) != 2 or np.shape(getattr(self, name)) != shape:
                raise ValueError(f"{name}: got shape {np.shape(getattr(self, name))}, want (n, m), that of effect")
        for name, choices in (("method", Method), ("kind", Kind), ("loop", Loop)):
            if getattr(self, name) not in get_args(choices):
                raise ValueError(f"{name}: got {getattr(self, name)!r}, want one of {', '.join(get_args(choices))}")
        plain = InfluenceNetwork.complete(*shape).relabel(self.actions or None, self.targets or None)
        object.__setattr__(self, "actions", plain.actions)
        object.__setattr__(self, "targets", plain.targets)

    @property
    def shape(self) -> tuple[int, int]:
        """``(n_actions, n_targets)``."""
        return self.effect.shape[0], self.effect.shape[1]

    @property
    def name(self) -> str:
        """One-step, open-loop or closed-loop."""
        return self.kind if self.kind == "one-step" else f"{self.loop}-loop"

    @property
    def tested(self) -> bool:
        """Whether the method tests, so that there are p-values and an error rate can be kept."""
        return self.method not in WITHOUT_P_VALUES

    @cached_property
    def confidence(self) -> np.ndarray:
        """1 − q, with q the smallest false-discovery rate at which the edge is found, ``(n, m)``; 0 if untested."""
        return 1 - np.nan_to_num(adjusted(self.p_value), nan=1.0)

    def found(self, fdr: float = 0.05, *, control: Control = "bh", threshold: float | None = None) -> np.ndarray:
        """Which pairs are edges at this false-discovery rate, booleans ``(n, m)``; see `network`."""
        if threshold is None:
            threshold = THRESHOLD.get(self.method)
        if threshold is not None:
            return np.nan_to_num(self.effect) > threshold
        if not 0 < fdr < 1:
            raise ValueError(f"fdr: got {fdr}, want a false-discovery rate between 0 and 1, such as 0.05")
        if not self.tested:
            raise ValueError(
                f"threshold: missing; the {self.method} method has no p-values, so that no false-discovery rate can be "
                "kept. Give one, such as discovery.predictive.THRESHOLDS['low']"
            )
        return discoveries(self.p_value, fdr, control)

    def network(
        self, fdr: float = 0.05, *, control: Control = "bh", threshold: float | None = None
    ) -> InfluenceNetwork:
        """The edges of which at most a share `fdr` is false on average.

        - `control`: ``"bh"`` (Benjamini–Hochberg), or ``"by"`` (Benjamini–Yekutieli), which holds however the tests
          depend on each other, and finds less.
        - `threshold`: in place of both, the edges whose effect is larger. Methods without p-values go by it alone:
          ``"predictive"`` wants one, ``"gated"`` takes ½ unless told.
        """
        return InfluenceNetwork(self.found(fdr, control=control, threshold=threshold), self.actions, self.targets)

    def draw(self, style: str = "matrix", *, fdr: float = 0.05, ax: "Axes | None" = None) -> "Axes":
        """Draw it with confidence: ``"matrix"``, or ``"bipartite"``; see `factorax.discovery.drawing.draw`."""
        from .drawing import draw

        return draw(self, style, fdr=fdr, ax=ax)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a safetensors file: arrays, and a JSON header. `network().save` writes K alone."""
        from .storage import save

        save(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Discovery":
        """Read what `save` wrote."""
        from .storage import load

        return load(path)

    def as_edges(self, fdr: float = 0.05, *, threshold: float | None = None) -> list[dict[str, Any]]:
        """One dictionary for every edge, the strongest evidence first: ready for JSON."""
        i, j = np.nonzero(self.found(fdr, threshold=threshold))
        order = np.lexsort((-np.abs(self.effect[i, j]), -self.confidence[i, j]))
        return [
            {
                "action": self.actions[a],
                "target": self.targets[b],
                "effect": float(self.effect[a, b]),
                "p_value": None if np.isnan(self.p_value[a, b]) else float(self.p_value[a, b]),
                "confidence": float(self.confidence[a, b]),
                "samples": int(self.samples[a, b]),
            }
            for a, b in zip(i[order], j[order], strict=True)
        ]

    def __str__(self) -> str:
        n, m = self.shape
        network = "network of one step" if self.kind == "one-step" else f"network of returns, {self.loop} loop"
        lines = [f"{self.method}, {network}: {n} actions → {m} targets"]
        if self.method in THRESHOLD:
            lines.append(
                f"{int(self.found().sum())} of {n * m} pairs are edges: {self.effect_unit} above "
                f"{THRESHOLD[self.method]:g}, each from {_range(self.samples)} samples"
            )
        elif not self.tested:
            lines.append(
                f"{self.effect_unit} up to {np.nanmax(self.effect):.3g}; network(threshold=…) makes edges of it"
            )
        else:
            edges = int(self.found().sum())
            lines.append(f"{edges} of {n * m} pairs are edges at a false-discovery rate of 0.05, each from "
                         f"{_range(self.samples)} samples")  # fmt: skip
        for other in self.also.values():
            here, there = self.found(), other.found()
            lines.append(
                f"{other.name}: {int(there.sum())} edges, {int((there & ~here).sum())} of them not here, "
                f"{int((here & ~there).sum())} here not there"
            )
        return "\n".join([*lines, f"What it says: {PROMISES[self.method]}.", *self.notes])

    __repr__ = __str__


def _range(samples: np.ndarray) -> str:
    low, high = int(samples.min()), int(samples.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
