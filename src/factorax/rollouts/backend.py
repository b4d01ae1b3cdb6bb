"""Backends: step environments with a policy, in this process or by workers that are replaced if they crash.

After each iteration a backend knows the episode of each environment: the seed of its reset and all actions since. A
new worker replays them and is then in the state in which the old one started the fragment. This requires environments
that draw all random numbers from the seed of their reset and keep nothing from one episode to the next. It is checked:
if the observation differs, the episode is lost (see `EpisodeLost`).
"""

import contextlib
import faulthandler
import math
import sys
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np

from .episodes import Episode, continued
from .player import Iteration, Plan, Player
from .transitions import Fragment, RunningEpisodes, Transition, side_by_side

MAX_DEATHS = 3
"""Number of deaths of a worker in one fragment after which an error is raised."""
START_SECONDS = 120.0
"""Seconds for a worker to start and create its environments, in addition to the time for a fragment."""
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Environment variables of workers: they share the machine, so each uses one thread."""


class LostWarning(UserWarning):
    """Warns that an episode or a worker was lost in a rollout and has been replaced."""


class WorkerDied(RuntimeError):
    """Raised if a worker has ended; the message says why."""


class Backend(ABC):
    """Steps environments with a policy. All backends return bit-identical transitions for the same iterations."""

    episodes: Sequence[Episode] | None = None
    """The episodes in progress after the last iteration; None before the first.

    If set before the first iteration, these episodes are replayed and continued."""

    in_flight = False
    """Whether fragments have been started and not yet collected."""

    late: Sequence[tuple[int, np.ndarray]] = ()
    """Environments and targets of episodes of the last iteration that its transitions do not contain."""

    @abstractmethod
    def begin(self, iteration: Iteration) -> None:
        """Start a fragment with these parameters in all environments, and return immediately."""

    @abstractmethod
    def fragments(self) -> list[Fragment]:
        """Wait until all fragments are complete, and return them in the order of the environments."""

    @abstractmethod
    def close(self) -> None:
        """Stop all environments and workers; if they are needed again, new ones continue their episodes."""

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
        self.late = [each for fragment in fragments for each in fragment.late]
        return transitions

    def collect(self, iteration: Iteration) -> Transition:
        """Run `begin` and `finish`."""
        self.begin(iteration)
        return self.finish()


class InlineBackend(Backend):
    """Steps all environments in this process and thread; if a fragment takes more than `seconds`, the stack is
    written to stderr."""

    def __init__(self, plan: Plan, seconds: float = math.inf):
        self.plan, self.seconds = plan, seconds
        self._player: Player | None = None
        self._next: Iteration | None = None

    def begin(self, iteration: Iteration) -> None:
        """Store the iteration; the fragment is played when it is collected."""
        self._next = iteration

    def fragments(self) -> list[Fragment]:
        """Play one fragment of all environments; after an error they are closed."""
        assert self._next is not None
        episodes = None
        with _stack_if_late(self.seconds):
            if self._player is None:
                self._player, episodes = Player(self.plan, 0, self.plan.n_envs), self.episodes
            try:
                return [self._player.play(self._next, episodes)]
            except Exception:  # but not after an interrupt, from which the same environments go on
                self.close()
                raise

    def close(self) -> None:
        """Close all environments."""
        player, self._player = self._player, None
        if player is not None:
            player.close()


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


@dataclass
class Worker:
    """The state of a worker as known to the backend."""

    number: int
    first: int
    end: int
    """Its environments are those from `first` up to `end` (exclusive)."""
    handle: Any = None
    deadline: float = np.inf
    deaths: int = 0
    fragment: Fragment | None = None


class WorkerBackend(Backend):
    """Environments distributed evenly over workers, of which there is at most one per environment or vector."""

    def __init__(self, plan: Plan, workers: int, seconds: float):
        self.plan, self.seconds = plan, seconds
        workers, together = min(workers, plan.n_batches), plan.num_envs or 1
        # Multiples of the size of a vector, whose environments are stepped together.
        bounds = together * np.linspace(0, plan.n_batches, workers + 1).round().astype(int)
        self.workers = [Worker(w, int(bounds[w]), int(bounds[w + 1])) for w in range(workers)]
        self._iteration: Iteration | None = None
        self._messages: list[str] = []

    @abstractmethod
    def start(self, worker: Worker) -> None:
        """Start a new worker, which creates its environments, and set its handle. May raise `WorkerDied`."""

    @abstractmethod
    def ask(self, worker: Worker, iteration: Iteration, episodes: Sequence[Episode] | None) -> None:
        """Let a ready worker play a fragment, starting from `episodes` or its current episodes.

        May raise `WorkerDied`.
        """

    @abstractmethod
    def wait(self, workers: Sequence[Worker], seconds: float) -> Sequence[Worker]:
        """Return the workers that have answered or ended within this time."""

    @abstractmethod
    def answer(self, worker: Worker) -> Fragment | None:
        """Return a fragment, or None from a new worker that has created its environments.

        Raises `WorkerDied`, or the error that an environment raised.
        """

    @abstractmethod
    def kill(self, worker: Worker) -> None:
        """Kill a worker, which may hang or have ended."""

    @abstractmethod
    def dismiss(self, workers: Sequence[Worker]) -> None:
        """Let workers close their environments and end."""

    def begin(self, iteration: Iteration) -> None:
        """Let all workers play a fragment; new workers do so once they have started."""
        self._iteration, self.in_flight = iteration, True
        for worker in self.workers:
            worker.fragment, worker.deaths = None, 0
            if worker.handle is None:
                self._start(worker)
            else:
                self._ask(worker, None)

    def fragments(self) -> list[Fragment]:
        """Return one fragment per worker, in the order of environments."""
        try:
            while waiting := [worker for worker in self.workers if worker.fragment is None]:
                self._hear(waiting)
        except BaseException:
            self.close()  # otherwise fragments would remain that nobody collects
            raise
        fragments = []
        for worker in self.workers:
            fragment, worker.fragment = worker.fragment, None
            assert fragment is not None
            fragments.append(fragment)
        fragments[0] = fragments[0]._replace(messages=(*self._messages, *fragments[0].messages))
        self._messages = []
        return fragments

    def close(self) -> None:
        """Stop all workers."""
        self.dismiss([worker for worker in self.workers if worker.handle is not None])
        for worker in self.workers:
            worker.handle = None
        self.in_flight = False

    def _hear(self, waiting: list[Worker]) -> None:
        ready = self.wait(waiting, min(worker.deadline for worker in waiting) - time.monotonic())
        for worker in waiting if not ready else ():  # a worker that has answered is not late
            if worker.deadline <= time.monotonic():
                self._replace(worker, WorkerDied(f"had not answered after {self.seconds:g} s (the setting seconds)"))
        for worker in ready:
            try:
                # Only a lost worker is replaced: an error of an environment would be raised again by its successor.
                worker.fragment = self.answer(worker)
            except WorkerDied as error:
                self._replace(worker, error)
                continue
            if worker.fragment is None:
                self._ask(worker, self.episodes[worker.first : worker.end] if self.episodes is not None else None)

    def _start(self, worker: Worker) -> None:
        worker.deadline = time.monotonic() + self.seconds + START_SECONDS
        try:
            self.start(worker)
        except WorkerDied as error:
            self._replace(worker, error)

    def _ask(self, worker: Worker, episodes: Sequence[Episode] | None) -> None:
        assert self._iteration is not None
        again = max((episode.length for episode in episodes or ()), default=0)
        # A new worker first replays its episodes, so it gets the time for those steps as well.
        worker.deadline = time.monotonic() + self.seconds * (1 + again / self.plan.n_steps)
        try:
            self.ask(worker, self._iteration, episodes)
        except WorkerDied as error:
            self._replace(worker, error)

    def _replace(self, worker: Worker, error: WorkerDied) -> None:
        if worker.handle is not None:
            # Even if it is only late: it must not write to shared memory while its successor does.
            self.kill(worker)
            worker.handle = None
        worker.deaths += 1
        what = f"worker {worker.number} (environments {worker.first} to {worker.end - 1})"
        if worker.deaths >= MAX_DEATHS:
            raise WorkerDied(
                f"{what} was lost {MAX_DEATHS} times over one fragment; the last time it {error}"
            ) from error
        self._messages.append(f"{what} was replaced, and its fragment is played again: it {error}")
        self._start(worker)


def packed(plan: Any) -> bytes:
    """Return a pickled plan for other processes, with functions by value unless they can be imported."""
    try:
        return cloudpickle.dumps(plan)
    except Exception as error:
        raise ValueError(
            f"problem: cannot be sent to a worker ({error}); want a function that creates the environment there, "
            "without references to an environment, a file or a lock"
        ) from error
