"""Rollouts in worker processes of this machine, each with environments of its own; a simulator each, if need be."""

import os
import pickle
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from multiprocessing import connection
from typing import Any, NamedTuple

from .._temporary import TemporaryFolder
from . import channel
from .episodes import Episode
from .memory import Memory
from .player import Iteration, Plan
from .supervising import ONE_THREAD, Supervised, Worker, WorkerDied, packed
from .transitions import Fragment

_PATIENCE = 3.0  # seconds for all workers together to close their environments
_GONE = (EOFError, ConnectionError)


class _Process(NamedTuple):
    process: subprocess.Popen
    connection: connection.Connection


class RemoteTraceback(Exception):
    """Where in a worker an error arose."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Processes(Supervised):
    """Worker processes: spawned, not forked, with one thread for BLAS; fragments come by shared memory."""

    def __init__(self, plan: Plan, workers: int, seconds: float):
        super().__init__(plan, workers, seconds)
        self._plan = packed(plan)
        self._iterations: tuple[Iteration | None, bytes] = None, b""
        self._folder = TemporaryFolder("workers")
        self._memory = Memory(plan, path=None if channel.INHERITS else str(self._folder.path / "memory"))
        self._finalize = weakref.finalize(self, _end_all, self.workers, self._memory, self._folder)

    def start(self, worker: Worker) -> None:
        """A process that has its plan and is at work to make its environments."""
        # No worker may take an accelerator from the learner, or leave files behind when it is killed.
        environment = os.environ | ONE_THREAD | {"JAX_PLATFORMS": "cpu", "TMPDIR": str(self._folder.path)}
        worker.handle = _Process(*channel.launch(self._memory, environment))
        self._send(worker, pickle.dumps(sys.path), self._plan, pickle.dumps((worker.first, worker.end)))

    def ask(self, worker: Worker, iteration: Iteration, episodes: Sequence[Episode] | None) -> None:
        """Send parameters and entropy."""
        if self._iterations[0] is not iteration:  # pickled once for all workers
            self._iterations = iteration, pickle.dumps(iteration)
        self._send(worker, self._iterations[1], pickle.dumps(episodes))

    def wait(self, workers: Sequence[Worker], seconds: float) -> Sequence[Worker]:
        """Return those whose sockets have something, or an end."""
        ready: Any = connection.wait([worker.handle.connection for worker in workers], max(seconds, 0.0))
        return [worker for worker in workers if worker.handle.connection in ready]

    def answer(self, worker: Worker) -> Fragment | None:
        """From shared memory."""
        try:
            kind, content = worker.handle.connection.recv()
        except _GONE:
            raise WorkerDied(_cause(worker.handle.process)) from None
        if kind == "ready":
            return None
        if kind == "error":
            error, text = content
            raise error from RemoteTraceback(text)
        return self._memory.read(worker.first, worker.end, *content)

    def kill(self, worker: Worker) -> None:
        """By SIGKILL, with the processes of its simulators."""
        channel.kill(worker.handle.process)
        _dismiss([worker.handle])

    def dismiss(self, workers: Sequence[Worker]) -> None:
        """Close their sockets, and wait a little."""
        _dismiss([worker.handle for worker in workers])

    def close(self) -> None:
        """And remove what they left in their temporary folder."""
        super().close()
        self._folder.empty()

    def _send(self, worker: Worker, *parts: bytes) -> None:
        try:
            for part in parts:
                worker.handle.connection.send_bytes(part)
        except _GONE:
            raise WorkerDied(_cause(worker.handle.process)) from None


def _cause(process: subprocess.Popen) -> str:
    try:
        code = process.wait(timeout=10.0)
    except subprocess.TimeoutExpired:
        return "closed its socket"
    if code < 0:
        name = signal.Signals(-code).name
        memory = "; was there memory enough?" if name == "SIGKILL" else ""
        return f"was ended by signal {-code} ({name}{memory})"
    return f"ended with exit code {code}"


def _dismiss(handles: Sequence[_Process]) -> None:
    for handle in handles:
        handle.connection.close()
    patience = time.monotonic() + _PATIENCE
    for handle in handles:
        try:
            handle.process.wait(timeout=max(patience - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            channel.kill(handle.process)
        channel.release(handle.process)


def _end_all(workers: list[Worker], memory: Memory, folder: TemporaryFolder) -> None:
    _dismiss([worker.handle for worker in workers if worker.handle is not None])
    memory.close()
    folder.remove()
