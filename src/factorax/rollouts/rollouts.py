"""The interface of all backends: fragments of trajectories for new parameters."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from .episodes import Episode, followed
from .playing import Iteration
from .transitions import Fragment, Running, Transition, side_by_side


class LostWarning(UserWarning):
    """Something was lost in a rollout, and made good: an episode, or a worker."""


class Rollouts(ABC):
    """Environments and an actor somewhere. For the same iterations all backends give the same, bit for bit."""

    episodes: Sequence[Episode] | None = None
    """Those in progress after the last iteration; None before the first. May be set before a first one: environments
    then play these again, and go on from there."""

    in_flight = False
    """Whether fragments have been begun that nobody has asked for yet."""

    @abstractmethod
    def send(self, iteration: Iteration) -> None:
        """Give parameters to all who play."""

    @abstractmethod
    def fragments(self) -> list[Fragment]:
        """What they played, in the order of environments, once all are done."""

    @abstractmethod
    def close(self) -> None:
        """End all environments and workers."""

    def begin(self, iteration: Iteration) -> None:
        """Let all environments play a fragment, with these parameters; return at once."""
        self.send(iteration)
        self.in_flight = True

    def finish(self) -> Transition:
        """The transitions of all environments, ``[T, B, ...]``, since `begin`; with a warning for every loss."""
        self.in_flight = False
        found = self.fragments()
        for fragment in found:
            for message in fragment.messages:
                warnings.warn(message, LostWarning, stacklevel=2)
        seen = side_by_side([fragment.seen for fragment in found])
        running = Running(*map(np.concatenate, zip(*(fragment.running for fragment in found), strict=True)))
        self.episodes = followed(self.episodes, seen, running)
        return seen

    def collect(self, iteration: Iteration) -> Transition:
        """`begin` and `finish`."""
        self.begin(iteration)
        return self.finish()
