"""What a run writes while it trains: one line of metrics per update, and checkpoints."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..structure import InfluenceNetwork
from ..structure.labels import edge_label

if TYPE_CHECKING:
    from ..learning.factored_ppo import FactoredPPO

_SECONDS_BETWEEN_CHECKPOINTS = 30.0
_LONG = 256  # vectors longer than this are summarised in files


class Recorder:
    """Writes ``metrics.jsonl``, ``checkpoints/`` and, with `tensorboard`, TensorBoard events into the folder of a run.

    `has_last` says whether ``checkpoints/last.safetensors`` exists and is intact.
    """

    def __init__(self, out: Path, model: "FactoredPPO", *, has_last: bool, tensorboard: bool = False):
        self.out, self.model, self.has_last, self.saved = out, model, has_last, model.timesteps
        self.writer = _tensorboard(out) if tensorboard else None
        self.written = time.monotonic()

    def write(self, metrics: dict[str, Any]) -> None:
        """Writes the metrics of an update; edges that an adaptive network gained or lost are written by name."""
        metrics = dict(metrics)
        changed = metrics.pop("network/changed", None)
        if changed is not None:
            metrics |= _changes(np.asarray(changed), self.model.spec.network.static)
        with room(self.out, self.saved), (self.out / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({name: plain(value) for name, value in metrics.items()}, ensure_ascii=False) + "\n")
        if self.writer is not None:
            numbers = {name: value for name, value in metrics.items() if name not in ("network/came", "network/went")}
            for name, value in scalars(numbers, self.model.spec.network.static):
                self.writer.add_scalar(name, value, metrics["time/total_timesteps"])

    @property
    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() - self.written > _SECONDS_BETWEEN_CHECKPOINTS

    def keep(self) -> None:
        """Saves a checkpoint of the model if it has learnt since the last one, which is kept as the one before it.

        At every moment at least one intact checkpoint has one of the two known names.
        """
        if self.model.timesteps <= self.saved and (self.has_last or not self.model.timesteps):
            return
        folder = self.out / "checkpoints"
        new, last = folder / "new.safetensors", folder / "last.safetensors"
        with room(self.out, self.saved):
            self.model.save(new)
            if self.has_last:
                os.replace(last, folder / "previous.safetensors")
            os.replace(new, last)
        self.has_last, self.saved, self.written = True, self.model.timesteps, time.monotonic()


@contextmanager
def room(out: Path, saved: int) -> Iterator[None]:
    """Turns an error of the disk, such as no space left, into one that says what is kept and what to do."""
    try:
        yield
    except OSError as error:
        kept = f"the checkpoint of step {saved} is whole" if saved else "there is no checkpoint yet"
        raise OSError(
            error.errno,
            f"out: cannot write to {str(out)!r} ({error.strerror}); {kept}. Make room, and the same command resumes it",
        ) from error


def _changes(changed: np.ndarray, network: InfluenceNetwork) -> dict[str, list[str]]:
    edges = {}
    for name, sign in (("network/came", 1), ("network/went", -1)):
        pairs = np.argwhere(changed == sign)
        if len(pairs):
            edges[name] = [edge_label(network.actions[i], network.targets[j]) for i, j in pairs]
    return edges


def _tensorboard(out: Path) -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ValueError("tensorboard: needs the package tensorboardX; pip install 'factorax[tensorboard]'") from None
    return SummaryWriter(str(out / "tensorboard"))


def plain(value: Any) -> Any:
    """Returns a metric as JSON: a number, a list of numbers or names, or the quartiles of a long vector."""
    value = np.asarray(value)
    if value.dtype.kind == "U":
        return value.tolist()
    if value.size > _LONG:
        return {"quartiles": np.quantile(value, [0, 0.25, 0.5, 0.75, 1]).tolist()}
    return value.tolist() if value.ndim else value.item()


def scalars(metrics: dict[str, Any], network: InfluenceNetwork) -> Iterator[tuple[str, float]]:
    """Yields named numbers: vectors by the names of their factors or targets, long vectors by their median."""
    for name, value in metrics.items():
        value = np.asarray(value)
        labels = network.actions if name.startswith(("factor/", "variance/")) else network.targets
        if value.ndim == 0:
            yield name, float(value)
        elif value.size > _LONG:
            yield f"{name}/median", float(np.median(value))
        else:
            yield from ((f"{name}/{label}", float(x)) for label, x in zip(labels, value, strict=True))
