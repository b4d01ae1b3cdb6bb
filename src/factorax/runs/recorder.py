"""What a run writes while it trains: one line of metrics per update, and checkpoints."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._files import append_text, sync_folder
from ..learning.logger import LONG
from ..structure import InfluenceNetwork
from ..structure.labels import edge_label

if TYPE_CHECKING:
    from ..learning.factored_ppo import FactoredPPO

_SECONDS_BETWEEN_CHECKPOINTS = 30.0


class Recorder:
    """Writes ``metrics.jsonl`` and ``checkpoints/`` into the folder of a run.

    `has_last` says whether ``checkpoints/last.safetensors`` exists and is intact.
    """

    def __init__(self, out: Path, model: "FactoredPPO", *, has_last: bool):
        self.out, self.model, self.has_last, self.saved = out, model, has_last, model.num_timesteps
        self.written, self.last_row = time.monotonic(), model.num_timesteps

    def write(self, metrics: dict[str, Any]) -> None:
        """Write the metrics of an update; edges that an adaptive network gained or lost are written by name."""
        metrics = dict(metrics)
        changed = metrics.pop("network/changed", None)
        if changed is not None:
            metrics |= _changes(np.asarray(changed), self.model.spec.network.static)
        line = json.dumps({name: plain(value) for name, value in metrics.items()}, ensure_ascii=False) + "\n"
        with room(self.out, self.saved):
            append_text(self.out / "metrics.jsonl", line)
        self.last_row = metrics["time/total_timesteps"]

    def finish(self) -> None:
        """Write what an interrupt has left out: the last row, and a checkpoint."""
        for metrics in self.model.history[-1:]:
            if self.last_row < metrics["time/total_timesteps"] <= self.model.num_timesteps:
                self.write(metrics)
        self.keep()

    @property
    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() - self.written > _SECONDS_BETWEEN_CHECKPOINTS

    def keep(self) -> None:
        """Save a checkpoint of the model if it has learnt since the last one, which is kept as the one before it.

        At every moment at least one intact checkpoint has one of the two known names.
        """
        if self.model.num_timesteps <= self.saved and (self.has_last or not self.model.num_timesteps):
            return
        folder = self.out / "checkpoints"
        new, last = folder / "new.safetensors", folder / "last.safetensors"
        with room(self.out, self.saved):
            self.model.save(new)
            if self.has_last and last.exists():  # an interrupt may have come between the two
                os.replace(last, folder / "previous.safetensors")
            os.replace(new, last)
            sync_folder(folder)
        self.has_last, self.saved, self.written = True, self.model.num_timesteps, time.monotonic()


@contextmanager
def room(out: Path, saved: int) -> Iterator[None]:
    """Turn an error of the disk, such as no space left, into one that says what is kept and what to do."""
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


def plain(value: Any) -> Any:
    """Return a metric as JSON: a number, a list of numbers or names, or the quartiles of a long vector."""
    value = np.asarray(value)
    if value.dtype.kind == "U":
        return value.tolist()
    if value.size > LONG:
        return {"quartiles": np.quantile(value, [0, 0.25, 0.5, 0.75, 1]).tolist()}
    return value.tolist() if value.ndim else value.item()
