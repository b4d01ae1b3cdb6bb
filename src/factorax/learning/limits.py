"""Limits on untrusted files: checked against numbers in the file and its size, before memory is allocated.

They apply to settings from run folders and checkpoints, which may be untrusted. Settings passed in Python or on the
command line are limited only by the memory of the machine.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax

from .devices import available_memory
from .modules.mlp import stored_init

if TYPE_CHECKING:
    from .learner import Learner

MOST_ENVS = 2**20
MOST_STEPS = 2**30
"""Maximum number of steps of all environments in a rollout, n_envs × n_steps."""
MOST_LAYERS = 64
SLACK = 2**26
"""Number of bytes by which a model may exceed twice the size of its file."""

_file: ContextVar[Path | None] = ContextVar("file", default=None)


def checked_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a file without those that only the user may choose; raise ValueError if one is too large.

    The address of a Ray cluster is such a setting: whoever runs the cluster can run code in connected processes. A
    custom initialiser is not in a file, and not needed, because the file has the weights.
    """
    n_envs, n_steps, layers = settings["n_envs"], settings["n_steps"], len(settings["hidden"])
    if n_envs > MOST_ENVS:
        raise ValueError(f"n_envs: got {n_envs:,} from a file, want at most {MOST_ENVS:,}")
    if n_envs * n_steps > MOST_STEPS:
        raise ValueError(
            f"n_steps: got {n_steps:,} × {n_envs:,} environments from a file, want at most {MOST_STEPS:,} steps"
        )
    if layers > MOST_LAYERS:
        raise ValueError(f"hidden: got {layers:,} layers from a file, want at most {MOST_LAYERS}")
    return settings | {"ray_address": ""} | ({"init": stored_init} if settings["init"] == "custom" else {})


@contextmanager
def no_larger_than(path: Path) -> Iterator[None]:
    """Reject models created in this context that would take much more memory than their file."""
    token = _file.set(path)
    try:
        yield
    finally:
        _file.reset(token)


def check_size(learner: "Learner") -> None:
    """Raise ValueError if the state of a learner is too large for its file (see `no_larger_than`)."""
    path = _file.get()
    if path is None:
        return
    leaves = jax.tree.leaves(eqx.filter_eval_shape(learner.init))
    size = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves if hasattr(leaf, "dtype"))
    there, free = path.stat().st_size, available_memory(learner.config)
    if size > min(2 * there + SLACK, size if free is None else free):  # a large file may be sparse
        raise ValueError(
            f"{path}: has {there:,} bytes, but a model with its settings takes {size:,}; want the settings it was "
            "written with"
        )
