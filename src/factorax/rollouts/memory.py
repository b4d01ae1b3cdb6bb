"""Shared memory without a name: what a process leaves in it is there for the other, and it ends with both of them."""

import mmap
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from .playing import Plan
from .transitions import Fragment, Running, Transition

_ALIGN = 64


def layout(plan: Plan) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and type of every array of an iteration, all environments together."""
    steps, c = (plan.n_steps, plan.n_envs), len(plan.actor.components)
    return {
        "obs": ((*steps, plan.n_inputs), "f4"),
        "action": ((*steps, c), "f4"),
        "psi": ((*steps, plan.n_targets), "f4"),
        "next_obs": ((*steps, plan.n_inputs), "f4"),
        "terminated": (steps, "?"),
        "truncated": (steps, "?"),
        "factor_mask": ((*steps, plan.n_factors), "?"),
        "target_terminated": ((*steps, plan.n_targets), "?"),
        "episode_psi": ((*steps, plan.n_targets), "f8"),
        "episode_length": (steps, "i8"),
        "log_prob": ((*steps, c), "f4"),
        "running.seed": ((plan.n_envs,), "i8"),
        "running.began": ((plan.n_envs,), "i8"),
        "running.obs": ((plan.n_envs, plan.n_inputs), "f4"),
    }


class Memory:
    """The arrays of an iteration in shared memory; every worker writes its own columns of them."""

    def __init__(self, plan: Plan, handle: int | None = None):
        found = layout(plan)
        sizes = [-(-_size(*entry) // _ALIGN) * _ALIGN for entry in found.values()]
        self.handle = _reserve(sum(sizes)) if handle is None else handle
        memory = mmap.mmap(self.handle, sum(sizes))
        starts = np.cumsum([0, *sizes[:-1]])
        self.arrays: Mapping[str, np.ndarray] = {
            name: np.ndarray(shape, dtype, memory, int(start))
            for start, (name, (shape, dtype)) in zip(starts, found.items(), strict=True)
        }

    def write(self, fragment: Fragment, first: int, end: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Leave a fragment in its columns; returns the fields it has, and its messages."""
        for name, array in zip(Transition._fields, fragment.seen, strict=True):
            if array is not None:
                self.arrays[name][:, first:end] = array
        for name, array in zip(Running._fields, fragment.running, strict=True):
            self.arrays[f"running.{name}"][first:end] = array
        return tuple(name for name in Transition._fields if getattr(fragment.seen, name) is not None), fragment.messages

    def read(self, first: int, end: int, has: tuple[str, ...], messages: tuple[str, ...]) -> Fragment:
        """The fragment in these columns, where it lies: it is there until the next is played."""
        seen: dict[str, Any] = {
            name: self.arrays[name][:, first:end] if name in has else None for name in Transition._fields
        }
        running = Running(*(self.arrays[f"running.{name}"][first:end] for name in Running._fields))
        return Fragment(Transition(**seen), running, messages)

    def close(self) -> None:
        """Let go of it; it is no more when the last array is gone that lies in it."""
        self.arrays = {}
        os.close(self.handle)


def _size(shape: tuple[int, ...], dtype: str) -> int:
    return int(np.prod(shape)) * np.dtype(dtype).itemsize


def _reserve(size: int) -> int:
    """A file without a name of so many bytes, in memory if there is room."""
    for folder in ("/dev/shm", None):
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                os.posix_fallocate(file.fileno(), 0, size)  # a full disk is noticed here, not in the middle of a write
                return os.dup(file.fileno())
        except OSError as error:
            problem = error
    raise OSError(
        problem.errno,
        f"rollouts: no room for {size:,} bytes that workers share ({problem.strerror}); free some, or take "
        "fewer n_steps or n_envs",
    )
