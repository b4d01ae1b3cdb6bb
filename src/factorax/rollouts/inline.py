"""The backend that steps environments in this process."""

import math

from .backend import Backend
from .player import Iteration, Plan, Player
from .transitions import Fragment
from .watchdog import watched


class Inline(Backend):
    """Steps all environments in this process and thread.

    Reports where it is if a fragment takes more than `seconds`.
    """

    def __init__(self, plan: Plan, seconds: float = math.inf):
        super().__init__()
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
        with watched(self.seconds):
            return [self._player.play(self._next, self.episodes if fresh else None)]

    def close(self) -> None:
        """Close all environments."""
        self._player.close()
