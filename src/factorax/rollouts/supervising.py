"""Workers that may crash: each is replaced, its fragment is played again, and results do not change.

After every iteration the supervisor knows which episode every environment is in: the seed of its reset and all actions
since. A new worker replays them, and is then where the old one was when it started the fragment. This holds for
environments that draw everything random from the seed of their reset and carry nothing from one episode to the next.
It is checked: if the observation differs, the episode is lost (see `EpisodeLost`).
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
"""After this many deaths of a worker over one fragment, give up with an error."""
START_SECONDS = 120.0
"""Time for a worker to start and make its environments, in addition to the time for a fragment."""

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Environment variables of workers, which share their machine."""


class WorkerDied(RuntimeError):
    """A worker has ended; the message says why."""


@dataclass
class Worker:
    """What the supervisor knows of a worker."""

    number: int
    first: int
    end: int
    """Its environments are those from `first` to before `end`."""
    handle: Any = None
    deadline: float = np.inf
    deaths: int = 0
    fragment: Fragment | None = None


class Supervised(Backend):
    """Environments spread evenly over workers."""

    def __init__(self, plan: Plan, workers: int, seconds: float):
        together = plan.num_envs or 1
        most = plan.n_envs // together
        if not 1 <= workers <= most:
            of = "environments" if plan.num_envs is None else f"vectors of {together} environments"
            raise ValueError(f"workers: got {workers}, want from 1 to as many as there are {of}, {most}")
        self.plan, self.seconds = plan, seconds
        bounds = together * np.linspace(0, most, workers + 1).round().astype(int)
        self.workers = [Worker(w, int(bounds[w]), int(bounds[w + 1])) for w in range(workers)]
        self._iteration: Iteration | None = None
        self._messages: list[str] = []

    @abstractmethod
    def start(self, worker: Worker) -> None:
        """Set the handle of a new worker that makes its environments. May raise `WorkerDied`."""

    @abstractmethod
    def ask(self, worker: Worker, iteration: Iteration, episodes: Sequence[Episode] | None) -> None:
        """Let one that is ready play a fragment, beginning where `episodes` say, or where it is. May raise
        `WorkerDied`."""

    @abstractmethod
    def wait(self, workers: Sequence[Worker], seconds: float) -> Sequence[Worker]:
        """Return the workers that have answered, or ended, within this many seconds."""

    @abstractmethod
    def answer(self, worker: Worker) -> Fragment | None:
        """Return a fragment; None from a new worker that has made its environments. Raises `WorkerDied`, or what the
        environments raised."""

    @abstractmethod
    def kill(self, worker: Worker) -> None:
        """End a worker at once; it may hang, or have ended."""

    @abstractmethod
    def dismiss(self, workers: Sequence[Worker]) -> None:
        """Let workers close their environments and end."""

    def send(self, iteration: Iteration) -> None:
        """Let all workers play a fragment; new ones once they have started."""
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
            self.close()  # there are fragments that nobody will ask for
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
        """End all workers; if they are needed again, new ones continue where they were."""
        self.dismiss([worker for worker in self.workers if worker.handle is not None])
        for worker in self.workers:
            worker.handle = None
        self.in_flight = False

    def _hear(self, waiting: list[Worker]) -> None:
        ready = self.wait(waiting, min(worker.deadline for worker in waiting) - time.monotonic())
        for worker in waiting if not ready else ():  # a worker that has answered was in time
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
    """Return a plan for other processes: its functions by value, unless they can be imported."""
    try:
        return cloudpickle.dumps(plan)
    except Exception as error:
        raise ValueError(
            f"problem: cannot be sent to a worker ({error}); want a function that makes the environment there, without "
            "an environment, a file or a lock in it"
        ) from error
