"""Fault tolerance: crashed workers are replaced and their fragments are replayed, and results do not change.

After each iteration the supervisor knows the episode of each environment: the seed of its reset and all actions since.
A new worker replays them and is then in the state in which the old one started the fragment. This requires environments
that draw all random numbers from the seed of their reset and keep nothing from one episode to the next. It is checked:
if the observation differs, the episode is lost (see `EpisodeLost`).
"""

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np

from .backend import Backend
from .episodes import Episode
from .player import Iteration, Plan
from .transitions import Fragment

DEATHS = 3
"""Number of deaths of a worker in one fragment after which an error is raised."""
START_SECONDS = 120.0
"""Seconds for a worker to start and create its environments, in addition to the time for a fragment."""

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Environment variables of workers: they share the machine, so each uses one thread."""


class WorkerDied(RuntimeError):
    """Raised if a worker has ended; the message says why."""


@dataclass
class Worker:
    """The state of a worker as known to the supervisor."""

    number: int
    first: int
    end: int
    """Its environments are those from `first` up to `end` (exclusive)."""
    handle: Any = None
    deadline: float = np.inf
    deaths: int = 0
    fragment: Fragment | None = None


class Supervised(Backend):
    """Environments distributed evenly over workers."""

    def __init__(self, plan: Plan, workers: int, seconds: float):
        together = plan.num_envs or 1
        most = plan.n_envs // together
        if not 1 <= workers <= most:
            of = "environments" if plan.num_envs is None else f"vectors of {together} environments"
            raise ValueError(f"workers: got {workers}, want from 1 to {most}, the number of {of}")
        self.plan, self.seconds = plan, seconds
        bounds = together * np.linspace(0, most, workers + 1).round().astype(int)
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

    def send(self, iteration: Iteration) -> None:
        """Let all workers play a fragment; new workers do so once they have started."""
        self._iteration = iteration
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
        """Stop all workers; if they are needed again, new ones continue their episodes."""
        self.dismiss([worker for worker in self.workers if worker.handle is not None])
        for worker in self.workers:
            worker.handle = None
        self.in_flight = False

    def _hear(self, waiting: list[Worker]) -> None:
        ready = self.wait(waiting, min(worker.deadline for worker in waiting) - time.monotonic())
        for worker in waiting if not ready else ():  # a worker that has answered is not late
            if worker.deadline <= time.monotonic():
                self._replace(worker, WorkerDied(f"had not answered after {self.seconds:g} s (fragment_seconds)"))
        for worker in ready:
            try:
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
        worker.deadline = time.monotonic() + self.seconds * (1 + again / self.plan.n_steps)
        try:
            self.ask(worker, self._iteration, episodes)
        except WorkerDied as error:
            self._replace(worker, error)

    def _replace(self, worker: Worker, error: WorkerDied) -> None:
        if worker.handle is not None:
            self.kill(worker)
            worker.handle = None
        worker.deaths += 1
        what = f"worker {worker.number} (environments {worker.first} to {worker.end - 1})"
        if worker.deaths >= DEATHS:
            raise WorkerDied(f"{what} was lost {DEATHS} times over one fragment; the last time it {error}") from error
        self._messages.append(f"{what} was replaced, and its fragment is played again: it {error}")
        self._start(worker)


def packed(plan: Plan) -> bytes:
    """Return a pickled plan for other processes, with functions by value unless they can be imported."""
    try:
        return cloudpickle.dumps(plan)
    except Exception as error:
        raise ValueError(
            f"problem: cannot be sent to a worker ({error}); want a function that creates the environment there, "
            "without references to an environment, a file or a lock"
        ) from error
