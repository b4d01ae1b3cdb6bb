"""Rollouts in worker processes on this machine, each with its own environments and simulators."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from multiprocessing import connection
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import cloudpickle

from . import channel
from .backend import ONE_THREAD, START_SECONDS, Worker, WorkerBackend, WorkerDied, packed
from .episodes import Episode
from .player import Iteration, Plan
from .shared_arrays import SharedArrays
from .transitions import Fragment

_PATIENCE = 3.0  # seconds for all workers to close their environments
_GONE = (EOFError, ConnectionError)


class _Process(NamedTuple):
    process: subprocess.Popen
    connection: connection.Connection


class RemoteTraceback(Exception):
    """The traceback of an error in a worker."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class ProcessBackend(WorkerBackend):
    """Worker processes, spawned (not forked), with one BLAS thread each; fragments are returned in shared memory."""

    def __init__(self, plan: Plan, workers: int, seconds: float):
        super().__init__(plan, workers, seconds)
        self._plan = packed(plan)
        self._iterations: tuple[Iteration | None, bytes] = None, b""
        self._folder = TemporaryDirectory(prefix="factorax-workers-", ignore_cleanup_errors=True)
        self._memory = SharedArrays(plan, path=None if channel.INHERITS else os.path.join(self._folder.name, "memory"))
        # Without a reference to this object, so that it also runs if nobody calls `close`.
        self._finalize = weakref.finalize(self, _end_all, self.workers, self._memory, self._folder)

    def start(self, worker: Worker) -> None:
        """Start a process that receives its plan and creates its environments."""
        os.makedirs(self._folder.name, exist_ok=True)  # `close` has removed it if they start again
        worker.handle = _launch(self._memory, self._folder.name)
        _send(worker.handle, pickle.dumps(sys.path), self._plan, pickle.dumps((worker.first, worker.end)))

    def ask(self, worker: Worker, iteration: Iteration, episodes: Sequence[Episode] | None) -> None:
        """Send parameters and entropy to a worker."""
        if self._iterations[0] is not iteration:  # pickled once for all workers
            self._iterations = iteration, pickle.dumps(iteration)
        _send(worker.handle, self._iterations[1], pickle.dumps(episodes))

    def wait(self, workers: Sequence[Worker], seconds: float) -> Sequence[Worker]:
        """Return the workers whose sockets have data or are closed."""
        ready: Any = connection.wait([worker.handle.connection for worker in workers], max(seconds, 0.0))
        return [worker for worker in workers if worker.handle.connection in ready]

    def answer(self, worker: Worker) -> Fragment | None:
        """Return a fragment from shared memory."""
        content = _receive(worker.handle)
        return None if content is None else self._memory.read(worker.first, worker.end, *content)

    def kill(self, worker: Worker) -> None:
        """Kill a worker and the processes of its simulators with SIGKILL."""
        channel.kill(worker.handle.process)
        _dismiss([worker.handle])

    def dismiss(self, workers: Sequence[Worker]) -> None:
        """Close the sockets of workers and wait briefly."""
        _dismiss([worker.handle for worker in workers])

    def close(self) -> None:
        """Stop all workers and remove their temporary files."""
        super().close()
        self._folder.cleanup()


def call_in_worker(function: Callable[..., Any], *arguments: Any, seconds: float) -> Any:
    """Return the result of a function that is called in a new worker process, or raise the error that it raises.

    A simulator that crashes or hangs in it does no harm to this process: the result is then a `WorkerDied`.
    """
    with TemporaryDirectory(prefix="factorax-workers-", ignore_cleanup_errors=True) as folder:
        handle = _launch(None, folder)
        try:
            _send(handle, pickle.dumps(sys.path), cloudpickle.dumps(function), packed(arguments))
            if not handle.connection.poll(min(seconds + START_SECONDS, threading.TIMEOUT_MAX)):
                raise WorkerDied(f"had not answered after {seconds:g} s")
            return _receive(handle)
        finally:
            channel.kill(handle.process)
            _dismiss([handle])


def _launch(memory: SharedArrays | None, folder: str) -> _Process:
    # Workers must not use the learner's accelerator, nor leave files behind when they are killed.
    environment = os.environ | ONE_THREAD | {"JAX_PLATFORMS": "cpu", "TMPDIR": folder}
    return _Process(*channel.launch(memory, environment))


def _send(handle: _Process, *parts: bytes) -> None:
    try:
        for part in parts:
            handle.connection.send_bytes(part)
    except _GONE:
        raise WorkerDied(_cause(handle.process)) from None


def _receive(handle: _Process) -> Any:
    """Return what a worker has sent, or raise the error that it has sent."""
    try:
        kind, content = handle.connection.recv()
    except _GONE:
        raise WorkerDied(_cause(handle.process)) from None
    if kind == "error":
        error, text = content
        raise error from RemoteTraceback(text)
    return content


def _cause(process: subprocess.Popen) -> str:
    try:
        code = process.wait(timeout=10.0)
    except subprocess.TimeoutExpired:
        return "closed its socket"
    if code < 0:
        name = signal.Signals(-code).name
        memory = "; possibly out of memory" if name == "SIGKILL" else ""
        return f"was killed by signal {-code} ({name}{memory})"
    return f"ended with exit code {code}"


def _dismiss(handles: Sequence[_Process]) -> None:
    for handle in handles:
        handle.connection.close()
    # One limit for all: their sockets are closed, so they close their environments at the same time.
    patience = time.monotonic() + _PATIENCE
    for handle in handles:
        try:
            handle.process.wait(timeout=max(patience - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            channel.kill(handle.process)
        channel.release(handle.process)


def _end_all(workers: list[Worker], memory: SharedArrays, folder: TemporaryDirectory) -> None:
    _dismiss([worker.handle for worker in workers if worker.handle is not None])
    memory.close()
    folder.cleanup()
