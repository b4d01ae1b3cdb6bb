"""The backend that steps environments in this process."""

import contextlib
import faulthandler
import math
import sys
import threading
from collections.abc import Iterator

from .backend import Backend
from .player import Iteration, Plan, Player
from .transitions import Fragment


class Inline(Backend):
    """Steps all environments in this process and thread; if a fragment takes more than `seconds`, the stack is
    written to stderr."""

    def __init__(self, plan: Plan, seconds: float = math.inf):
        self.seconds = seconds
        self._player = Player(plan, 0, plan.n_envs)
        self._next: Iteration | None = None
        self._fresh = True

    def send(self, iteration: Iteration) -> None:
        """Store the iteration; the fragment is played when it is collected."""
        self._next = iteration

    def fragments(self) -> list[Fragment]:
        """Play one fragment of all environments."""
        assert self._next is not None
        fresh, self._fresh = self._fresh, False
        with _stack_if_late(self.seconds):
            return [self._player.play(self._next, self.episodes if fresh else None)]

    def close(self) -> None:
        """Close all environments."""
        self._player.close()


@contextlib.contextmanager
def _stack_if_late(seconds: float) -> Iterator[None]:
    """Write the stack of all threads to stderr if the block takes longer than `seconds`, and let it continue.

    `faulthandler` also does so while a simulator in C holds the interpreter's lock.
    """
    if sys.__stderr__ is None or not seconds < threading.TIMEOUT_MAX:
        yield
        return
    faulthandler.dump_traceback_later(seconds, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
