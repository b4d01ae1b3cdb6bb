"""A worker process: ``python -m factorax.rollouts.worker [SOCKET [MEMORY]]``, started by `ProcessBackend`.

It plays fragments until its driver closes the socket or ends; or it calls one function (see `call_in_worker`).
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
from .player import Plan, Player
from .shared_arrays import SharedArrays


def main() -> None:
    """Serve requests until the driver is done, then exit."""
    for name in ("SIGINT", "SIGHUP"):  # the driver also receives it and decides
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    if hasattr(os, "SCHED_BATCH"):
        # On waking up, do not interrupt the driver, which is about to wake up other workers.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with contextlib.suppress(EOFError, ConnectionError):
        serve(*channel.join())
    sys.stdout.flush()
    os._exit(0)  # do not wait for threads of environments


def serve(connection: Connection, shared: int | str | None) -> None:
    """Receive the plan, confirm that the environments exist, then play a fragment per request; errors end the loop."""
    sys.path[:] = pickle.loads(connection.recv_bytes())
    packed, arguments = connection.recv_bytes(), connection.recv_bytes()
    try:
        plan = pickle.loads(packed)
        if not isinstance(plan, Plan):  # a function
            connection.send_bytes(pickle.dumps(("done", plan(*pickle.loads(arguments)))))
            return
        first, end = pickle.loads(arguments)
        memory = SharedArrays(plan, path=shared) if isinstance(shared, str) else SharedArrays(plan, shared)
        player = Player(plan, first, end)
    except Exception as error:
        connection.send_bytes(_packed(error))
        return
    gc.collect()
    gc.freeze()  # imported modules stay: exempt them from garbage collection
    gc.set_threshold(20_000)  # collect less often than in every second step of a simulator
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
    """Return a pickled error for the driver, with its own class if possible."""
    text = "".join(traceback.format_exception(error))
    try:
        packed = pickle.dumps(("error", (error, text)))
        # Some errors cannot be restored although they can be pickled, if their class takes other arguments.
        pickle.loads(packed)
    except Exception:
        stand_in: Any = RuntimeError(f"{type(error).__name__}: {error}")
        stand_in.__notes__ = list(getattr(error, "__notes__", []))
        packed = pickle.dumps(("error", (stand_in, text)))
    return packed


if __name__ == "__main__":
    main()
