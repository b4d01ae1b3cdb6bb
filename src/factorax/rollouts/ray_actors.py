"""Rollouts by Ray actors, on this machine or on a cluster; needs ``pip install 'factorax[ray]'``.

Workers request processors. If the cluster has none available, because there are few or a node has failed, a worker
shares a node with others; when there is room again, it moves there and its episodes are replayed.
"""

import logging
import os
import pickle
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .backend import ONE_THREAD, Worker, WorkerBackend, WorkerDied, packed
from .episodes import Episode
from .player import Iteration, Plan, Player
from .transitions import Fragment, slim, whole

_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # read by Ray at import: 0 restricts it to one machine
_PATIENCE = 15.0  # seconds for Ray to place an actor
_ENVIRONMENT = ONE_THREAD | {"JAX_PLATFORMS": "cpu"}


@dataclass
class _Handle:
    actor: Any
    answer: Any
    """A reference to the next result."""
    squeezed: bool
    ready: bool = False
    started: float = 0.0


class RayBackend(WorkerBackend):
    """One actor per worker. Without an address, Ray is started on this machine, for local connections only."""

    def __init__(self, plan: Plan, workers: int, seconds: float, *, address: str = "", cpus: float = 1.0):
        super().__init__(plan, workers, seconds)
        self._ray, self._cpus = connect(address), cpus
        self._plan = self._ray.put(packed(plan))
        self._iterations: tuple[Iteration | None, Any] = None, None
        self._actor = self._ray.remote(_Actor)

    def begin(self, iteration: Iteration) -> None:
        """Move workers that share a node if there is room now; then start a fragment in all."""
        for worker in self.workers:
            if worker.handle is not None and worker.handle.squeezed and self._room():
                self.kill(worker)
                worker.handle = None
        super().begin(iteration)

    def start(self, worker: Worker) -> None:
        """Start an actor, placed as far from the others as possible."""
        self._place(worker, squeeze=not self._room())

    def _room(self) -> bool:
        """Return whether the live nodes have processors for one more worker."""
        placed = sum(w.handle is not None and not w.handle.squeezed for w in self.workers)
        return (placed + 1) * self._cpus <= self._ray.cluster_resources().get("CPU", 0.0)

    def _place(self, worker: Worker, *, squeeze: bool) -> None:
        # No restarts by Ray: a restarted actor would have no environments, and nobody would replay their episodes.
        options = {"num_cpus": 0 if squeeze else self._cpus, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        actor = self._actor.options(**options, runtime_env={"env_vars": _ENVIRONMENT}).remote()
        ready = actor.prepare.remote(sys.path, self._plan, worker.first, worker.end)
        worker.handle = _Handle(actor, ready, squeeze, started=time.monotonic())

    def ask(self, worker: Worker, iteration: Iteration, episodes: Sequence[Episode] | None) -> None:
        """Send parameters and entropy, once per node."""
        if self._iterations[0] is not iteration:
            self._iterations = iteration, self._ray.put(iteration)
        worker.handle.answer = worker.handle.actor.play.remote(self._iterations[1], episodes)

    def wait(self, workers: Sequence[Worker], seconds: float) -> Sequence[Worker]:
        """Return the workers whose answer has arrived."""
        by_answer = {worker.handle.answer: worker for worker in workers}
        # A second at most: an actor that Ray cannot place never answers, and is dealt with below.
        ready, _ = self._ray.wait(list(by_answer), num_returns=1, timeout=max(min(seconds, 1.0), 0.0))
        if not ready:
            for worker in workers:
                handle = worker.handle
                if not handle.ready and not handle.squeezed and time.monotonic() - handle.started > _PATIENCE:
                    self.kill(worker)
                    self._place(worker, squeeze=True)
        return [by_answer[answer] for answer in ready]

    def answer(self, worker: Worker) -> Fragment | None:
        """Return a fragment from Ray's object store."""
        try:
            fragment = self._ray.get(worker.handle.answer)
        except self._ray.exceptions.RayTaskError as error:
            # The error that the environment raised, as from other backends.
            raise error.cause from error
        except self._ray.exceptions.RayError as error:
            raise WorkerDied(f"was lost by Ray: {str(error).strip().splitlines()[0]}") from error
        worker.handle.ready = True
        return None if fragment is None else fragment._replace(transitions=whole(fragment.transitions))

    def kill(self, worker: Worker) -> None:
        """Kill an actor."""
        self._ray.kill(worker.handle.actor, no_restart=True)

    def dismiss(self, workers: Sequence[Worker]) -> None:
        """Let idle workers close their environments."""
        closing = [worker.handle.actor.close.remote() for worker in workers]
        self._ray.wait(closing, num_returns=len(closing), timeout=3.0) if closing else None
        for worker in workers:
            self.kill(worker)


class _Actor:
    """The actor that runs on a node."""

    def prepare(self, path: list[str], plan: bytes, first: int, end: int) -> None:
        """Create the environments."""
        sys.path += [folder for folder in path if folder not in sys.path]
        self.player = Player(pickle.loads(plan), first, end)

    def play(self, iteration: Iteration, episodes: Sequence[Episode] | None) -> Any:
        """Return a fragment, without redundant arrays."""
        fragment = self.player.play(iteration, episodes)
        return fragment._replace(transitions=slim(fragment.transitions))

    def close(self) -> None:
        """Close the environments."""
        self.player.close()


def connect(address: str) -> Any:
    """Return Ray, connected to the cluster at this address, or to a local one that listens on loopback only."""
    if not address and "ray" not in sys.modules:
        os.environ.setdefault(_LOOPBACK, "0")
    try:
        import ray  # pyright: ignore[reportMissingImports]
        import ray.exceptions  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ImportError("rollouts: 'ray' needs the package ray; pip install 'factorax[ray]'") from None
    if not ray.is_initialized():
        if not address and os.environ.get(_LOOPBACK) != "0":
            raise ValueError(
                "address: got none, but Ray has already been imported and would listen on all interfaces of this "
                f"machine; want {_LOOPBACK}=0 set before the import, a call of ray.init() beforehand, or an address"
            )
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray's future default, without its warning
        with warnings.catch_warnings():
            # JAX warns of forks, but here another program is executed immediately
            warnings.filterwarnings("ignore", "os.fork")
            ray.init(
                address=address or "local",
                include_dashboard=None if address else False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    return ray
