"""What a run writes while it trains: a line of metrics an update, and checkpoints."""

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
    from .factored_ppo import FactoredPPO

_SECONDS_BETWEEN_CHECKPOINTS = 30.0
_LONG = 256  # vectors longer than this are summarised in files


class Recorder:
    """Into the folder of a run: ``metrics.jsonl``, ``checkpoints/``, and events for TensorBoard if they are asked for.

    `has_last` says whether ``checkpoints/last.safetensors`` is there and whole.
    """

    def __init__(self, out: Path, model: "FactoredPPO", *, has_last: bool, tensorboard: bool = False):
        self.out, self.model, self.has_last, self.saved = out, model, has_last, model.timesteps
        self.writer = _tensorboard(out) if tensorboard else None
        self.written = time.monotonic()

    def write(self, metrics: dict[str, Any]) -> None:
        """The metrics of an update; edges of an adaptive network that came and went, by name."""
        metrics = dict(metrics)
        changed = metrics.pop("network/changed", None)
        if changed is not None:
            metrics |= _changes(np.asarray(changed), self.model.learner.network_at_start)
        with room(self.out, self.saved), (self.out / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({name: plain(value) for name, value in metrics.items()}, ensure_ascii=False) + "\n")
        if self.writer is not None:
            numbers = {name: value for name, value in metrics.items() if name not in ("network/came", "network/went")}
            for name, value in scalars(numbers, self.model.learner.network_at_start):
                self.writer.add_scalar(name, value, metrics["time/total_timesteps"])

    @property
    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() - self.written > _SECONDS_BETWEEN_CHECKPOINTS

    def keep(self) -> None:
        """A checkpoint of the model, if it has learnt since the last, which becomes the one before it.

        At every moment one of them is whole and has a name that is known.
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
    """A disk that is full, or gone, stops a run with a sentence."""
    try:
        yield
    except OSError as error:
        kept = f"the checkpoint of step {saved} is whole" if saved else "there is no checkpoint yet"
        raise OSError(
            error.errno,
            f"out: cannot write to {str(out)!r} ({error.strerror}); {kept}. Make room, and the same command goes on",
        ) from error


def _changes(changed: np.ndarray, network: InfluenceNetwork) -> dict[str, list[str]]:
    found = {}
    for name, sign in (("network/came", 1), ("network/went", -1)):
        pairs = np.argwhere(changed == sign)
        if len(pairs):
            found[name] = [edge_label(network.actions[i], network.targets[j]) for i, j in pairs]
    return found


def _tensorboard(out: Path) -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ValueError("tensorboard: needs the package tensorboardX; pip install 'factorax[tensorboard]'") from None
    return SummaryWriter(str(out / "tensorboard"))


def plain(value: Any) -> Any:
    """A number, a list of them, or of a long one its quartiles; names as they are."""
    value = np.asarray(value)
    if value.dtype.kind == "U":
        return value.tolist()
    if value.size > _LONG:
        return {"quartiles": np.quantile(value, [0, 0.25, 0.5, 0.75, 1]).tolist()}
    return value.tolist() if value.ndim else value.item()


def scalars(metrics: dict[str, Any], network: InfluenceNetwork) -> Iterator[tuple[str, float]]:
    """Every number by a name, those of factors and targets by theirs; of long vectors the median."""
    for name, value in metrics.items():
        value = np.asarray(value)
        labels = network.actions if name.startswith(("factor/", "variance/")) else network.targets
        if value.ndim == 0:
            yield name, float(value)
        elif value.size > _LONG:
            yield f"{name}/median", float(np.median(value))
        else:
            yield from ((f"{name}/{label}", float(x)) for label, x in zip(labels, value, strict=True))
