"""The connection between the driver and a worker process.

On systems where processes inherit file descriptors, the worker inherits a socket and the shared memory. On Windows the
worker reads from standard input a port on this machine, a token that identifies it, and the file of the shared memory.
"""

import contextlib
import hmac
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing.connection import Connection

from .backend import START_SECONDS, WorkerDied
from .shared_arrays import SharedArrays

INHERITS = hasattr(os, "fork")
"""Whether processes inherit file descriptors: on POSIX, where they are forked."""
HOST = "127.0.0.1"
_POLL_SECONDS = 0.2
_TOKEN_SECONDS = 5.0  # another program on this machine may connect to the port and send nothing
_COMMAND = (sys.executable, "-m", "factorax.rollouts.worker")


def launch(memory: SharedArrays | None, environment: Mapping[str, str]) -> tuple[subprocess.Popen, Connection]:
    """Start a worker process with these environment variables; return it and the connection. May raise `WorkerDied`."""
    if INHERITS:
        ours, theirs = socket.socketpair()
        with theirs:
            handles = (theirs.fileno(),) if memory is None else (theirs.fileno(), memory.handle)
            process = subprocess.Popen(
                [*_COMMAND, *map(str, handles)],
                pass_fds=handles,
                stdin=subprocess.DEVNULL,
                env=environment,
                process_group=0,  # a new group, which includes all processes started by its simulators
            )
        return process, Connection(ours.detach())
    token = secrets.token_bytes(32)
    with socket.create_server((HOST, 0)) as server:
        told = {"port": server.getsockname()[1], "token": token.hex(), "memory": memory and memory.path}
        process = subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, env=environment)
        assert process.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError):  # a worker that has ended is detected below
                process.stdin.write(json.dumps(told).encode() + b"\n")
                process.stdin.flush()  # stays open: end of file tells the worker that the driver has ended
            return process, Connection(_accepted(server, token, process).detach())
        except BaseException:
            process.kill()
            release(process)
            raise


def kill(process: subprocess.Popen) -> None:
    """Kill a worker and, on POSIX, the processes that its simulators have started, even if the worker has ended."""
    if not INHERITS:
        process.kill()
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def release(process: subprocess.Popen) -> None:
    """Wait for a process to end, and close its pipes."""
    process.wait()
    if process.stdin is not None:
        with contextlib.suppress(OSError):  # unwritten data has no reader any more
            process.stdin.close()


def join() -> tuple[Connection, int | str | None]:
    """Return, in a worker, the connection to its driver and the handle or file of the shared memory, if any.

    The worker then ends soon after its driver, even if its environments hang.
    """
    if len(sys.argv) > 1:
        _watch(partial(_until_orphaned, os.getppid()))
        return Connection(int(sys.argv[1])), int(sys.argv[2]) if len(sys.argv) > 2 else None
    driver = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # environments must not read the driver's standard input
    told = json.loads(driver.readline())
    _watch(driver.read)
    connected = socket.create_connection((HOST, told["port"]), timeout=START_SECONDS)
    connected.settimeout(None)
    connected.sendall(bytes.fromhex(told["token"]))
    return Connection(connected.detach()), told["memory"]


def _accepted(server: socket.socket, token: bytes, process: subprocess.Popen) -> socket.socket:
    """Return the socket of the worker, identified by its token; data from others is never unpickled."""
    server.settimeout(_POLL_SECONDS)
    end = time.monotonic() + START_SECONDS
    while process.poll() is None:
        if time.monotonic() > end:
            raise WorkerDied(f"had not connected after {START_SECONDS:g} s")
        with contextlib.suppress(TimeoutError, ConnectionError):
            candidate, _ = server.accept()
            candidate.settimeout(_TOKEN_SECONDS)
            if _has_sent(candidate, token):
                candidate.settimeout(None)
                return candidate
    raise WorkerDied(f"ended with exit code {process.returncode} before it was connected")


def _has_sent(candidate: socket.socket, token: bytes) -> bool:
    """Return whether the first bytes of this socket are the token; if not, close it."""
    received = b""
    with contextlib.suppress(OSError):
        while len(received) < len(token) and (more := candidate.recv(len(token) - len(received))):
            received += more
    if hmac.compare_digest(received, token):
        return True
    candidate.close()
    return False


def _watch(until_gone: Callable[[], object]) -> None:
    """End this process when the function returns: a hanging simulator does not notice that the driver was killed."""

    def end() -> None:
        until_gone()
        if INHERITS and os.getpgrp() == os.getpid():
            os.killpg(os.getpid(), signal.SIGKILL)  # together with its simulators
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def _until_orphaned(driver: int) -> None:
    while os.getppid() == driver:
        time.sleep(1.0)
