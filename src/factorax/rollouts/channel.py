"""How the driver and a worker process reach each other.

Where processes inherit file descriptors, the worker inherits a socket and the shared memory. On Windows they inherit
none: there the worker reads from its standard input a port of this machine, a token that identifies it, and the file
that holds the shared memory.
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

from .memory import Memory
from .player import Plan
from .supervising import START_SECONDS, WorkerDied

INHERITS = hasattr(os, "fork")
"""Whether processes inherit file descriptors: on POSIX, where they are forked."""
HOST = "127.0.0.1"
_POLL_SECONDS = 0.2
_TOKEN_SECONDS = 5.0  # any program of this machine may connect to the port, and say nothing
_COMMAND = (sys.executable, "-m", "factorax.rollouts.worker")


def launch(memory: Memory, environment: Mapping[str, str]) -> tuple[subprocess.Popen, Connection]:
    """Return a worker process with these environment variables, and the connection to it. May raise `WorkerDied`."""
    if memory.path is None:
        ours, theirs = socket.socketpair()
        with theirs:
            handles = theirs.fileno(), memory.handle
            process = subprocess.Popen(
                [*_COMMAND, *map(str, handles)],
                pass_fds=handles,
                stdin=subprocess.DEVNULL,
                env=environment,
                process_group=0,  # its own, with all that its simulators start
            )
        return process, Connection(ours.detach())
    token = secrets.token_bytes(32)
    with socket.create_server((HOST, 0)) as server:
        told = {"port": server.getsockname()[1], "token": token.hex(), "memory": memory.path}
        process = subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, env=environment)
        assert process.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError):  # a worker that has ended is noticed below
                process.stdin.write(json.dumps(told).encode() + b"\n")
                process.stdin.flush()  # and stays open: its end tells the worker that the driver is no more
            return process, Connection(_accepted(server, token, process).detach())
        except BaseException:
            process.kill()
            release(process)
            raise


def kill(process: subprocess.Popen) -> None:
    """End a worker at once, and on POSIX the processes that its simulators have started, even if it has ended."""
    if not INHERITS:
        process.kill()
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def release(process: subprocess.Popen) -> None:
    """Wait for the end of a process, and close what leads to it."""
    process.wait()
    if process.stdin is not None:
        with contextlib.suppress(OSError):  # what was not written is for nobody
            process.stdin.close()


def join() -> tuple[Connection, int | str]:
    """In a worker: the connection to its driver, and the handle or file of the shared memory.

    From then on the worker ends soon after its driver, even if its environments hang.
    """
    if len(sys.argv) > 1:
        _watch(partial(_until_orphaned, os.getppid()))
        return Connection(int(sys.argv[1])), int(sys.argv[2])
    driver = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # environments that read the standard input do not read the driver's
    told = json.loads(driver.readline())
    _watch(driver.read)
    connected = socket.create_connection((HOST, told["port"]), timeout=START_SECONDS)
    connected.settimeout(None)
    connected.sendall(bytes.fromhex(told["token"]))
    return Connection(connected.detach()), told["memory"]


def shared(plan: Plan, memory: int | str) -> Memory:
    """In a worker: the shared memory that `join` named."""
    return Memory(plan, path=memory) if isinstance(memory, str) else Memory(plan, memory)


def _accepted(server: socket.socket, token: bytes, process: subprocess.Popen) -> socket.socket:
    """Return the socket of the worker. It alone knows the token; nothing is unpickled that anybody else sends."""
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
    """Return whether the first bytes of this socket are the token; if not, it is closed."""
    received = b""
    with contextlib.suppress(OSError):
        while len(received) < len(token) and (more := candidate.recv(len(token) - len(received))):
            received += more
    if hmac.compare_digest(received, token):
        return True
    candidate.close()
    return False


def _watch(until_gone: Callable[[], object]) -> None:
    """End this process when the function returns: a simulator that hangs does not notice that the driver was killed."""

    def end() -> None:
        until_gone()
        if INHERITS and os.getpgrp() == os.getpid():
            os.killpg(os.getpid(), signal.SIGKILL)  # and its simulators with it
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def _until_orphaned(driver: int) -> None:
    while os.getppid() == driver:
        time.sleep(1.0)
