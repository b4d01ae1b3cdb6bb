"""Files written during training: one line of metrics per update, and checkpoints."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._files import append_text, sync_folder
from ..ppo.logger import LONG
from ..structure import InfluenceNetwork
from ..structure.labels import edge_label

if TYPE_CHECKING:
    from ..ppo.model import FactoredPPO

_SECONDS_BETWEEN_CHECKPOINTS = 30.0


class Recorder:
    """Writes ``metrics.jsonl`` and ``checkpoints/`` into the folder of a run.

    `has_last` tells whether ``checkpoints/last.safetensors`` exists and is intact.
    """

    def __init__(self, out: Path, model: "FactoredPPO", *, has_last: bool):
        self.out, self.model, self.has_last, self.saved = out, model, has_last, model.num_timesteps
        self.written, self.last_row = time.monotonic(), model.num_timesteps

    def write(self, metrics: dict[str, Any]) -> None:
        """Write the metrics of an update; edges added or removed by an adaptive network are written by name."""
        metrics = dict(metrics)
        changed = metrics.pop("network/changed", None)
        if changed is not None:
            metrics |= _changes(np.asarray(changed), self.model.spec.network.static)
        line = json.dumps({name: plain(value) for name, value in metrics.items()}, ensure_ascii=False) + "\n"
        with room(self.out, self.saved):
            append_text(self.out / "metrics.jsonl", line)
        self.last_row = metrics["time/total_timesteps"]

    def finish(self) -> None:
        """Write what an interrupt has left unwritten: the last row and a checkpoint."""
        for metrics in self.model.history[-1:]:
            if self.last_row < metrics["time/total_timesteps"] <= self.model.num_timesteps:
                self.write(metrics)
        self.keep()

    @property
    def due(self) -> bool:
        """Whether a checkpoint is due."""
        return time.monotonic() - self.written > _SECONDS_BETWEEN_CHECKPOINTS

    def start(self) -> None:
        """Save a checkpoint before the first step, or continue from the step to which a run was put back."""
        self.saved = self.last_row = self.model.num_timesteps
        if not self.saved and not self.has_last:
            self._save()

    def keep(self) -> None:
        """Save a checkpoint if the model has been trained since the last one, which is kept as the previous one.

        At any moment at least one intact checkpoint exists under one of the two names.
        """
        if self.model.num_timesteps > self.saved or (self.model.num_timesteps and not self.has_last):
            self._save()

    def _save(self) -> None:
        folder = self.out / "checkpoints"
        new, last = folder / "new.safetensors", folder / "last.safetensors"
        with room(self.out, self.saved):
            self.model.save(new)
            if self.has_last and last.exists():  # false after an interrupt between the two renames
                os.replace(last, folder / "previous.safetensors")
            os.replace(new, last)
            sync_folder(folder)
        self.has_last, self.saved, self.written = True, self.model.num_timesteps, time.monotonic()


@contextmanager
def room(out: Path, saved: int) -> Iterator[None]:
    """Convert a disk error, such as no space left, to one that says which checkpoint is intact and what to do."""
    try:
        yield
    except OSError as error:
        if not out.is_dir():
            raise FileNotFoundError(f"out: the folder {str(out)!r} was moved or deleted during training") from error
        kept = f"the checkpoint of step {saved} is intact" if saved else "there is no checkpoint yet"
        message = (
            f"out: cannot write to {str(out)!r} ({error.strerror or error}); {kept}. Free some space and run the same "
            "command again to resume"
        )
        raise (OSError(message) if error.errno is None else OSError(error.errno, message)) from error


def _changes(changed: np.ndarray, network: InfluenceNetwork) -> dict[str, list[str]]:
    edges = {}
    for name, sign in (("network/came", 1), ("network/went", -1)):
        pairs = np.argwhere(changed == sign)
        if len(pairs):
            edges[name] = [edge_label(network.actions[i], network.targets[j]) for i, j in pairs]
    return edges


def plain(value: Any) -> Any:
    """Return a metric as a JSON value: a number, a list of numbers or names, or the quartiles of a long vector."""
    value = np.asarray(value)
    if value.dtype.kind == "U":
        return value.tolist()
    if value.size > LONG:
        return {"quartiles": np.quantile(value, [0, 0.25, 0.5, 0.75, 1]).tolist()}
    return value.tolist() if value.ndim else value.item()
