"""A worker process: ``python -m factorax.rollouts.worker [SOCKET MEMORY]``, started by `Processes`.

It plays fragments until its driver closes the socket or is no more.
"""

import contextlib
import gc
import os
import pickle
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from . import channel
from .player import Player


def main() -> None:
    """Serve until the driver is done, then leave."""
    for name in ("SIGINT", "SIGHUP"):  # the driver gets it, too, and decides
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    with contextlib.suppress(EOFError, ConnectionError):
        serve(*channel.join())
    sys.stdout.flush()
    os._exit(0)  # what threads an environment has are no longer wanted


def serve(connection: Connection, shared: int | str) -> None:
    """Take the plan, say that the environments are there, then a fragment for every request; errors end it."""
    sys.path[:] = pickle.loads(connection.recv_bytes())
    plan, bounds = connection.recv_bytes(), connection.recv_bytes()
    first, end = pickle.loads(bounds)
    try:
        plan = pickle.loads(plan)
        memory, player = channel.shared(plan, shared), Player(plan, first, end)
    except Exception as error:
        connection.send_bytes(_packed(error))
        return
    gc.collect()
    gc.freeze()  # what was imported stays: no need to look at it again and again
    gc.set_threshold(20_000)  # nor to look for cycles in every second step of a simulator
    connection.send(("ready", None))
    try:
        while True:
            iteration, episodes = pickle.loads(connection.recv_bytes()), pickle.loads(connection.recv_bytes())
            try:
                fragment = player.play(iteration, episodes)
            except Exception as error:
                connection.send_bytes(_packed(error))
                return
            connection.send(("done", memory.write(fragment, first, end)))
    finally:
        player.close()


def _packed(error: Exception) -> bytes:
    """Return an error for the driver, of its own class if that can be sent."""
    text = "".join(traceback.format_exception(error))
    try:
        packed = pickle.dumps(("error", (error, text)))
        pickle.loads(packed)
    except Exception:
        stand_in: Any = RuntimeError(f"{type(error).__name__}: {error}")
        stand_in.__notes__ = list(getattr(error, "__notes__", []))
        packed = pickle.dumps(("error", (stand_in, text)))
    return packed


if __name__ == "__main__":
    main()
