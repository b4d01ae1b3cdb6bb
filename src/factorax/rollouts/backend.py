"""`Backend`: the interface for stepping Gymnasium environments, in this process or elsewhere."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from .episodes import Episode, continued
from .player import Iteration
from .transitions import Fragment, RunningEpisodes, Transition, side_by_side


class LostWarning(UserWarning):
    """Warns that an episode or a worker was lost in a rollout and has been replaced."""


class Backend(ABC):
    """Steps environments with a policy. All backends return bit-identical transitions for the same iterations."""

    episodes: Sequence[Episode] | None = None
    """The episodes in progress after the last iteration; None before the first.

    If set before the first iteration, these episodes are replayed and continued."""

    in_flight = False
    """Whether fragments have been started and not yet collected."""

    @abstractmethod
    def send(self, iteration: Iteration) -> None:
        """Start a fragment with these parameters in all environments."""

    @abstractmethod
    def fragments(self) -> list[Fragment]:
        """Wait until all fragments are complete, and return them in the order of the environments."""

    @abstractmethod
    def close(self) -> None:
        """Stop all environments and workers."""

    def begin(self, iteration: Iteration) -> None:
        """Start a fragment in all environments and return immediately."""
        self.send(iteration)
        self.in_flight = True

    def finish(self) -> Transition:
        """Return the transitions of all environments since `begin`, ``[T, B, ...]``, with all their warnings."""
        self.in_flight = False
        fragments = self.fragments()
        for fragment in fragments:
            for message in fragment.messages:
                warnings.warn(message, LostWarning, stacklevel=2)  # a Warning keeps its own category
        transitions = side_by_side([fragment.transitions for fragment in fragments])
        running = zip(*(fragment.running for fragment in fragments), strict=True)
        joined: list[Any] = [None if parts[0] is None else np.concatenate(parts) for parts in running]
        self.episodes = continued(self.episodes, transitions, RunningEpisodes(*joined))
        return transitions

    def collect(self, iteration: Iteration) -> Transition:
        """Run `begin` and `finish`."""
        self.begin(iteration)
        return self.finish()
