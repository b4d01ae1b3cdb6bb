"""Anonymous shared memory between the driver and its workers, freed when both have ended."""

import mmap
import os
import tempfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from .player import Plan
from .transitions import Fragment, RunningEpisodes, Transition

# The bytes of a cache line, so that no two arrays share one.
_ALIGN = 64


def layout(plan: Plan) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shape and type of each array of an iteration, for all environments together."""
    steps, c = (plan.n_steps, plan.n_envs), len(plan.policy.space)
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
        "memory": ((*steps, plan.policy.memory), "f4"),
        "running.memory": ((plan.n_envs, plan.policy.memory), "f4"),
    }


class SharedArrays:
    """The arrays of an iteration in shared memory; each worker writes its own columns.

    - `handle`: the handle of memory that another process has created.
    - `path`: a file to share if processes cannot inherit handles; it is created if missing.
    """

    def __init__(self, plan: Plan, handle: int | None = None, path: str | None = None):
        arrays = layout(plan)
        sizes = [-(-_size(*entry) // _ALIGN) * _ALIGN for entry in arrays.values()]
        self.handle = _reserve(sum(sizes), path) if handle is None else handle
        self.path = path
        memory = mmap.mmap(self.handle, sum(sizes))
        starts = np.cumsum([0, *sizes[:-1]])
        self.arrays: Mapping[str, np.ndarray] = {
            name: np.ndarray(shape, dtype, memory, int(start))
            for start, (name, (shape, dtype)) in zip(starts, arrays.items(), strict=True)
            if 0 not in shape
        }

    def write(self, fragment: Fragment, first: int, end: int) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Write a fragment into its columns; return the names of its transitions' fields, and what is no array."""
        for name, array in zip(Transition._fields, fragment.transitions, strict=True):
            if array is not None:
                self.arrays[name][:, first:end] = array
        for name, array in zip(RunningEpisodes._fields, fragment.running, strict=True):
            if array is not None:
                self.arrays[f"running.{name}"][first:end] = array
        has = tuple(name for name in Transition._fields if getattr(fragment.transitions, name) is not None)
        return has, fragment[2:]

    def read(self, first: int, end: int, has: tuple[str, ...], rest: tuple[Any, ...]) -> Fragment:
        """Return the fragment in these columns without copying: it is valid until the next one is played."""
        fields: dict[str, Any] = {
            name: self.arrays[name][:, first:end] if name in has else None for name in Transition._fields
        }
        places = {name: self.arrays.get(f"running.{name}") for name in RunningEpisodes._fields}
        running = RunningEpisodes(**{name: a[first:end] for name, a in places.items() if a is not None})
        return Fragment(Transition(**fields), running, *rest)

    def close(self) -> None:
        """Release the memory; it is freed with the last array that refers to it."""
        self.arrays = {}
        os.close(self.handle)


def _size(shape: tuple[int, ...], dtype: str) -> int:
    return int(np.prod(shape)) * np.dtype(dtype).itemsize


def _fill(file: IO[bytes], size: int) -> None:
    """Fill the file with `size` zero bytes that are actually allocated."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    block = bytes(2**20)  # on macOS and Windows
    for start in range(0, size, len(block)):
        file.write(block[: size - start])
    file.flush()


def _reserve(size: int, path: str | None) -> int:
    """Return a file of `size` bytes: the one at `path`, or an anonymous one, in memory if it fits."""
    if path is not None and os.path.exists(path):
        # The duplicate of its handle stays open when the file is closed.
        with open(path, "r+b") as file:
            return os.dup(file.fileno())
    for folder in ("/dev/shm", None):
        try:
            with tempfile.TemporaryFile(dir=folder) if path is None else open(path, "w+b") as file:
                _fill(file, size)  # detects a full disk here rather than in the middle of a write
                return os.dup(file.fileno())
        except OSError as error:
            problem = error
    raise OSError(
        problem.errno,
        f"rollouts: cannot allocate {size:,} bytes of memory shared with workers ({problem.strerror}); free some "
        "memory, or want fewer n_steps or n_envs",
    )
