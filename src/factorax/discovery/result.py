"""The result of discovery: effect, p-value and number of samples for each pair of an action and a target."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from .._checks import Count, Range, Share, check_type, checked, listed, path_of, real_array
from .._false_discovery import Control, adjusted, discoveries, p_values
from .._files import parse_json, read_bytes, write_whole
from .._text import counted, shown
from ..structure import InfluenceNetwork
from ..structure.drawing import check_axes, draw_matrix
from ..structure.labels import edge_label
from .streams import Streams

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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

MIN_DRAWN_CONFIDENCE = 0.5
"""Minimum confidence of an edge in a bipartite drawing."""
_FORMAT = 1
MAX_FILE_BYTES = 2**30
# What a damaged file may raise: wrong types, missing entries, and sizes beyond those of numbers.
_INVALID = (SafetensorError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
_ARRAYS = {"effect": np.float64, "p_value": np.float64, "samples": np.int64, "relative": np.float64}
# What a file holds of each result next to its arrays and labels.
_HEADER = ("method", "kind", "loop", "effect_unit", "notes", "steps", "streams", "lacks_reactions")


@dataclass(frozen=True, eq=False, repr=False)
class Discovery:
    """An influence network with the evidence for each of its edges.

    A one-step network shows immediate effects of actions, and biases the gradient of returns if influence comes later;
    `factorax.close_over` derives the network of returns from it.

    >>> found = Discovery("score", "return", effect=np.eye(2), p_value=np.array([[1e-4, 0.5], [0.9, 2e-4]]),
    ...                   samples=np.full((2, 2), 100))
    >>> found.network(fdr=0.05) == InfluenceNetwork.identity(2)
    True
    >>> found.confidence.round(3)
    array([[1.   , 0.333],
           [0.1  , 1.   ]])
    """

    method: MethodName
    kind: TargetKind
    """The kind of targets: rewards of one step, or returns."""
    effect: np.ndarray
    """Strength of the influence, in the method's own unit (`effect_unit`), ``(n, m)``."""
    p_value: np.ndarray
    """p-value of the hypothesis that there is no edge, ``(n, m)``; NaN if not tested."""
    samples: np.ndarray
    """Number of samples or re-runs behind each pair, ``(n, m)``."""
    actions: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    loop: Loop = "closed"
    """Whether later actions were replayed (open), or reacted to observations (closed)."""
    effect_unit: str = ""
    notes: tuple[str, ...] = ()
    """Remarks on what was skipped and what the samples can show."""
    steps: int = 0
    """Number of simulated steps in total."""
    streams: Streams | None = None
    """For interventions: whether random numbers were held fixed (``"held"``, or ``"trusted"`` if you say so), shifted
    with the actions (``"shifted"``), or could not be observed (``"unseen"``). None for other methods."""
    relative: np.ndarray | None = None
    """For interventions with random numbers held fixed: the mean over replays of the largest change of the target in a
    step, relative to the standard deviation of the target over steps, ``(n, m)``."""
    lacks_reactions: bool = False
    """Whether the other actions were replayed for several steps (open loop), so that influence through actors that
    react to their observations is missing."""
    also: Mapping[str, "Discovery"] = field(default_factory=dict)
    """The other networks of the same interventions by name: ``one-step``, ``open-loop``."""

    def __post_init__(self) -> None:
        kinds = {"method": MethodName, "kind": TargetKind, "loop": Loop, "effect_unit": str, "streams": Streams | None}
        kinds["lacks_reactions"] = bool
        for name, kind in kinds.items():
            checked(name, getattr(self, name), kind)
        for name in ("effect", "p_value", "samples", *["relative"] * (self.relative is not None)):
            array = real_array(name, getattr(self, name), finite=False)
            if array.ndim != 2 or array.shape != np.shape(self.effect) or not array.size:
                raise ValueError(f"{name}: got {shown(array)}, shape {array.shape}, want (n, m), the shape of effect")
        p_values(self.p_value)
        if (np.asarray(self.samples) < 0).any() or (np.asarray(self.samples) % 1).any():
            raise ValueError(f"samples: got {shown(self.samples)}, want whole numbers ≥ 0")
        listed("notes", self.notes, "a tuple of sentences")
        checked("steps", self.steps, Annotated[int, Range(0)])
        check_type("also", self.also, Mapping, "a dictionary of other results")
        for part in self.also.values():
            check_type("also", part, Discovery, "a dictionary whose values are results")
        shape = np.shape(self.effect)
        # Checks the labels, and sets the default ones, without a matrix.
        plain = InfluenceNetwork.complete(*shape).relabel(self.actions or None, self.targets or None)
        object.__setattr__(self, "actions", plain.actions)
        object.__setattr__(self, "targets", plain.targets)

    @property
    def shape(self) -> tuple[int, int]:
        """``(n_actions, n_targets)``."""
        return self.effect.shape[0], self.effect.shape[1]

    @property
    def name(self) -> str:
        """``"one-step"``, ``"open-loop"`` or ``"closed-loop"``."""
        return self.kind if self.kind == "one-step" else f"{self.loop}-loop"

    @property
    def tested(self) -> bool:
        """Whether the method has p-values, so that an error rate can be controlled."""
        return self.method not in THRESHOLD

    @cached_property
    def confidence(self) -> np.ndarray:
        """1 − q, where q is the smallest false-discovery rate at which the edge is found, ``(n, m)``; 0 if untested."""
        return 1 - np.nan_to_num(adjusted(self.p_value), nan=1.0)

    def found(self, fdr: float = 0.05, *, control: Control = "bh", threshold: float | None = None) -> np.ndarray:
        """Return which pairs are edges at this false-discovery rate, booleans ``(n, m)``; see `network`."""
        checked("control", control, Control)
        checked("threshold", threshold, float | None)
        if not 0 < checked("fdr", fdr, Share) < 1:
            raise ValueError(f"fdr: got {fdr}, want a false-discovery rate between 0 and 1, such as 0.05")
        if threshold is None:
            threshold = THRESHOLD.get(self.method)
        if threshold is not None:
            return np.nan_to_num(self.effect) > threshold
        return discoveries(self.p_value, fdr, control)

    def network(
        self,
        fdr: float = 0.05,
        *,
        control: Control = "bh",
        threshold: float | None = None,
        n_samples: int | None = None,
    ) -> InfluenceNetwork:
        """Return the network of edges with an expected fraction of false edges of at most `fdr`.

        - `control`: ``"bh"`` (Benjamini–Hochberg), or ``"by"`` (Benjamini–Yekutieli), which is valid for any dependence
          between the tests and finds less.
        - `threshold`: instead of both, the minimum effect of an edge. ``"gated"``, which has no p-values, uses only
          this; its default is ½.
        - `n_samples`: for interventions, return a soft network for gradients from this many samples N: an edge with the
          `relative` effect r has the weight r² / (r² + 1/N), close to 1 unless it would add more noise than signal.

        >>> found = Discovery("interventional", "return", effect=np.array([[5.0, 1e-4]]), p_value=np.zeros((1, 2)),
        ...                   samples=np.ones((1, 2)), relative=np.array([[0.5, 0.01]]))
        >>> found.network(n_samples=10_000).to_dense().round(2)
        array([[1. , 0.5]])
        """
        matrix: Any = self.found(fdr, control=control, threshold=threshold)
        if n_samples is not None:
            checked("n_samples", n_samples, Count)
            if self.relative is None:
                raise ValueError(
                    f"n_samples: got {n_samples}, but this {self.method} result has no effects relative to the spread; "
                    "want None, or worthwhile_network(batch, n_samples=…) for data"
                )
            square = np.square(self.relative)
            matrix = np.where(matrix, square / (square + 1 / n_samples), 0.0)
        network = InfluenceNetwork(matrix, self.actions, self.targets)
        vars(network)["lacks_reactions"] = self.lacks_reactions
        return network

    def draw(self, style: str = "matrix", *, fdr: float = 0.05, ax: "Axes | None" = None) -> "Axes":
        """Draw the discovery with matplotlib.

        - ``"matrix"``: confidence in blue, a frame around each edge at the false-discovery rate `fdr`, and a cross
          where nothing could be tested. For methods without p-values, the effect is shown.
        - ``"bipartite"``: as `InfluenceNetwork.draw`, with edges of confidence ½ or more, thinner if it is lower. For
          gates, the probability of being open is used as confidence.
        """
        checked("style", style, Literal["matrix", "bipartite"])
        # Before anything is drawn on the caller's axes.
        self.found(fdr, threshold=0.5)  # raises if `fdr` is invalid
        check_axes(ax)
        if style == "bipartite":
            values = self.effect if self.method in THRESHOLD else self.confidence
            drawn = np.where(values >= MIN_DRAWN_CONFIDENCE, values, 0.0)
            return InfluenceNetwork._derive(drawn, self.actions, self.targets).draw(ax=ax)
        rule = f"FDR {fdr:g}" if self.tested else f"above {THRESHOLD[self.method]}"
        return draw_matrix(
            self.confidence if self.tested else self.effect,
            self.actions,
            self.targets,
            label="confidence" if self.tested else self.effect_unit,
            title=f"{self.method}, {self.name}; framed: edges, {rule}",
            top=1.0,
            edges=self.found(fdr),
            untested=np.isnan(self.p_value) if self.tested else None,
            ax=ax,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a safetensors file: arrays and a JSON header. `network().save` writes only K."""
        path = path_of("path", path)
        parts = {"": self} | dict(self.also)
        arrays = {
            f"{name}/{key}": np.ascontiguousarray(getattr(part, key), dtype)
            for name, part in parts.items()
            for key, dtype in _ARRAYS.items()
            if getattr(part, key) is not None
        }
        # Labels are the same for all parts and stand once.
        header: dict[str, Any] = {"format": _FORMAT, "actions": self.actions, "targets": self.targets}
        header["parts"] = {name: {key: getattr(part, key) for key in _HEADER} for name, part in parts.items()}
        data = save_tensors(arrays, metadata={"factorax.discovery": json.dumps(header, ensure_ascii=False)})
        write_whole(path, lambda file: file.write(data))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Discovery":
        """Read a discovery that `save` wrote; raise ValueError for any other file."""
        if not (file := path_of("path", path, "a file that Discovery.save wrote")).is_file():
            raise FileNotFoundError(f"path: no file {str(file)!r}, want one that Discovery.save wrote")
        data = read_bytes(file, MAX_FILE_BYTES)
        try:
            size = int.from_bytes(data[:8], "little")
            header = parse_json(parse_json(data[8 : 8 + size])["__metadata__"]["factorax.discovery"])
            if header["format"] > _FORMAT:
                raise ValueError(f"written in format {header['format']}, this factorax reads up to {_FORMAT}")
            arrays, labels = load_tensors(data), (tuple(header["actions"]), tuple(header["targets"]))
            parts = {name: _fields(arrays, name, head, labels) for name, head in header["parts"].items()}
            main = parts.pop("")
            return Discovery(**main, also={name: Discovery(**part) for name, part in parts.items()})
        except _INVALID as error:
            raise ValueError(f"{file}: not a discovery of factorax, or damaged ({error})") from error

    def as_edges(self, fdr: float = 0.05, *, threshold: float | None = None) -> list[dict[str, Any]]:
        """Return one dictionary per edge, with the strongest evidence first, for use as JSON."""
        i, j = np.nonzero(self.found(fdr, threshold=threshold))
        # By confidence, then by effect: lexsort takes the most important key last.
        order = np.lexsort((-np.abs(self.effect[i, j]), -self.confidence[i, j]))
        return [
            {
                "action": self.actions[a],
                "target": self.targets[b],
                "effect": float(self.effect[a, b]),
                "relative": None if self.relative is None else float(self.relative[a, b]),
                "p_value": None if np.isnan(self.p_value[a, b]) else float(self.p_value[a, b]),
                "confidence": float(self.confidence[a, b]),
                "samples": int(self.samples[a, b]),
            }
            for a, b in zip(i[order], j[order], strict=True)
        ]

    def __str__(self) -> str:
        n, m = self.shape
        network = "one-step network" if self.kind == "one-step" else f"network of returns, {self.loop} loop"
        lines = [f"{self.method}, {network}: {counted(n, 'action')} → {counted(m, 'target')}"]
        count, rule = int(self.found().sum()), " at a false-discovery rate of 0.05"
        if self.method in THRESHOLD:
            rule = f": {self.effect_unit} above {THRESHOLD[self.method]:g}"
        low, high = int(self.samples.min()), int(self.samples.max())
        lines.append(
            f"{count} of {counted(n * m, 'pair')} {'is an edge' if count == 1 else 'are edges'}{rule}, each from "
            f"{low:,}{f' to {high:,}' * (low < high)} samples"
        )
        if self.relative is not None and self.found().any():
            i, j = np.nonzero(self.found())
            values = self.relative[i, j]
            weakest, strongest = (
                f"{values[k]:.2g} ({edge_label(self.actions[i[k]], self.targets[j[k]])})"
                for k in (values.argmin(), values.argmax())
            )
            lines.append(
                f"effects relative to the spread of the target: median {np.median(values):.2g}, from {weakest} to "
                f"{strongest}"
            )
        for other in self.also.values():
            edges, others = self.found(), other.found()
            lines.append(
                f"{other.name}: {counted(int(others.sum()), 'edge')}, {int((others & ~edges).sum())} additional and "
                f"{int((edges & ~others).sum())} missing"
            )
        if self.streams is not None:
            lines.append(f"random streams: {self.streams}")
        promise = SHIFTED if self.streams in ("shifted", "unseen") else PROMISES[self.method]
        lines += [f"What it says: {promise}.", *self.notes]
        if self.lacks_reactions:
            lines.append(
                "open loop: other actors repeated their actions. If their policies observe what others change, use "
                "fx.discover(…, policy=model) to find the network that training needs"
            )
        return "\n".join(lines)

    __repr__ = __str__


def _fields(arrays: dict[str, np.ndarray], name: str, head: dict[str, Any], labels: tuple[Any, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {key: arrays.get(f"{name}/{key}") for key in _ARRAYS}
    for key, dtype in _ARRAYS.items():
        # Only interventions with fixed random numbers have relative effects.
        if values[key] is None and key == "relative":
            continue
        if values[key].dtype != dtype or values[key].shape != tuple(map(len, labels)):
            raise ValueError(f"{name}/{key} has shape {values[key].shape} and type {values[key].dtype}")
    fields: dict[str, Any] = {key: head[key] for key in _HEADER} | {
        "notes": tuple(map(str, head["notes"])),
        "steps": int(head["steps"]),
    }
    return {**fields, **values, "actions": labels[0], "targets": labels[1]}
