"""Rollouts of Gymnasium environments: in this process, in worker processes, or by Ray actors."""

import contextlib
import faulthandler
import math
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .._text import counted
from ..problems.failures import EpisodeLost
from ..spec import Spec
from .backend import Backend, LostWarning
from .batched import BatchedEnvironments
from .collector import Behaviour, Collector
from .cores import available_cores
from .data_checks import DataCheck
from .episodes import Episode
from .host import HostEnvironments
from .player import Hosts, Iteration, Plan, Player
from .processes import Processes
from .ray_actors import RayActors
from .transitions import Fragment, Transition
from .vector import check_multiple


def hosts_of(spec: Spec, n_envs: int) -> Hosts:
    """Create `n_envs` environments of a problem in this process."""
    make: Any = spec.problem
    kind = HostEnvironments if spec.num_envs is None else BatchedEnvironments
    return kind(factory=make, n_envs=n_envs, space=spec.components, n_targets=spec.n_targets, n_factors=spec.n_factors)


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


class HostCollector(Collector):
    """Rollouts on the host. A `Backend` steps the environments and is started by the first rollout."""

    traced = False

    def __init__(self, spec: Spec, settings: Any, policy: Any = None, uses_local: bool = False):
        """Create a collector; arguments are as for `collector_for`."""
        check_multiple(settings.n_envs, spec.num_envs or 1)
        self.spec, self.settings, self._policy, self._uses_local = spec, settings, policy, uses_local
        self._backend: Backend | None = None
        self._restored: Sequence[Episode] | None = None
        self._policy_lag: int | None = None
        self._began = False
        self._data_check: DataCheck | None = DataCheck(spec)

    def init(self, key: Any) -> Any:
        """Return None: the environments store their own state."""
        return None

    @property
    def episodes(self) -> Sequence[Episode] | None:
        """The episodes in progress after the last rollout."""
        return self._restored if self._backend is None else self._backend.episodes

    @episodes.setter
    def episodes(self, episodes: Sequence[Episode] | None) -> None:
        self._restored = episodes

    def collect(self, behaviour: Behaviour, environments: Any, key: Any) -> tuple[Any, Any, Transition]:
        """Return one rollout; with `overlap`, that of the policy before the last update, while the next one is
        started."""
        backend = self.backend
        if not self.settings.overlap:
            transitions = backend.collect(self.iteration(behaviour, key))
            self._look(transitions)
            return None, key, transitions
        self._policy_lag = int(backend.in_flight)
        if not self._policy_lag:
            backend.begin(self.iteration(behaviour, key))
        transitions = backend.finish()
        self._look(transitions)
        backend.begin(self.iteration(behaviour, key, ahead=1))  # for the next update
        return None, key, transitions

    def _look(self, transitions: Transition) -> None:
        """Warn of data that are probably not intended, unless training was resumed or has begun earlier."""
        if self._restored is not None or self._began:
            self._data_check = None
        if self._data_check is not None:
            self._data_check.transitions(transitions)

    def iteration(self, behaviour: Behaviour, key: Any, ahead: int = 0) -> Iteration:
        """Return the data with which workers continue; `ahead` is the number of rollouts that are started early."""
        from jax import random

        words = np.asarray(random.key_data(key)).ravel()  # changes with every update
        # A resumed run starts other episodes, and so does training that starts again with the same model.
        seed = None if self._began or int(behaviour.timesteps) else self.settings.seed
        return Iteration(behaviour.arrays(), (*(int(word) for word in words), ahead), seed)

    def metrics(self) -> dict[str, Any]:
        """Return the age in updates of the policy of the last rollout, with `overlap`."""
        return {} if self._policy_lag is None else {"rollout/policy_lag": np.int32(self._policy_lag)}

    @property
    def backend(self) -> Backend:
        """The backend, started if it is not running."""
        if self._backend is None:
            self._backend = self._start()
            self._backend.episodes = self._restored
        return self._backend

    @cached_property
    def plan(self) -> Plan:
        """The data common to all workers."""
        spec, s = self.spec, self.settings
        make: Any = spec.problem
        return Plan(
            make=make,
            policy=self._policy,
            n_envs=s.n_envs,
            n_steps=s.n_steps,
            n_inputs=spec.n_inputs,
            n_factors=spec.n_factors,
            n_targets=spec.n_targets,
            log_probs=s.overlap,
            num_envs=spec.num_envs,
            own_local=self._uses_local and spec.problem_defines_local,
        )

    def _start(self) -> Backend:
        s, alone = self.settings, self.spec.one_per_process
        if alone and s.n_envs > 1 and (s.rollouts == "inline" or 0 < s.workers < s.n_envs):
            got = f"rollouts: got {s.rollouts!r}" + (f" with {counted(s.workers, 'worker')}" if s.workers else "")
            raise ValueError(
                f"{got} for {s.n_envs} environments, but a process can hold only one of these; want 'processes' or "
                f"'ray' with workers={s.n_envs}, or n_envs=1"
            )
        if s.rollouts == "inline":
            return Inline(self.plan, s.fragment_seconds)
        workers = s.workers or (s.n_envs if alone else min(available_cores(), s.n_envs // (self.spec.num_envs or 1)))
        if s.rollouts == "processes":
            return Processes(self.plan, workers, s.fragment_seconds)
        return RayActors(self.plan, workers, s.fragment_seconds, address=s.ray_address, cpus=s.worker_cpus)

    def play_episodes(self, behaviour: Behaviour, episodes: int, *, deterministic: bool, seed: int) -> np.ndarray:
        """Play episodes in this process, in up to `n_envs` environments, each with its share of the episodes."""
        import jax

        count = 1 if self.spec.one_per_process else min(episodes, self.settings.n_envs)
        count = self.spec.num_envs or count  # a vector is stepped as a whole, even if some environments have no share
        environments = hosts_of(self.spec, count)
        environments.init(seed)
        returns: list[list[np.ndarray]] = [[] for _ in range(count)]
        # not the first episodes to end, which would be biased towards short ones
        share = [len(range(i, episodes, count)) for i in range(count)]
        key, act = jax.random.key(seed + 1), self.compiled_act(behaviour, deterministic)
        remembering = Remembering(act, key, count, self._policy.memory)
        while any(len(r) < s for r, s in zip(returns, share, strict=True)):
            lost: dict[int, EpisodeLost] = {}
            transitions = environments.collect(remembering, 1, lost)
            for i, error in lost.items():
                warnings.warn(f"environment {i} lost its episode and was reset: {error}", LostWarning, stacklevel=3)
                environments.restart(i)
                remembering.restart(i)
            if isinstance(environments, BatchedEnvironments):
                ended = environments.finished  # includes calls that are no transitions of other environments
            else:
                ended = [(i, transitions.episode_psi[0, i]) for i in np.flatnonzero(transitions.episode_length[0])]
            for i, psi in ended:
                returns[i].append(psi)
        environments.close()
        return np.concatenate([np.reshape(r[:s], (s, -1)) for r, s in zip(returns, share, strict=True) if s])

    def close(self) -> None:
        """Stop all environments and workers. Set `episodes` to continue with the episodes in progress."""
        backend, self._backend, self._restored = self._backend, None, None
        if backend is not None:
            self._began = True
            backend.close()


class Remembering:
    """A compiled policy from observations to actions, with the memory of each environment if it is recurrent."""

    def __init__(self, act: Any, key: Any, n_envs: int, memory: int):
        self.act, self.key = act, key
        self.memory = np.zeros((n_envs, memory), np.float32)

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """Return actions ``(B, c)``, drawn with a new key in each call."""
        import jax

        self.key, for_step = jax.random.split(self.key)
        data = jax.random.key_data(for_step)
        if not self.memory.shape[1]:
            return self.act(data, obs)
        actions, memory = self.act(data, obs, self.memory)
        self.memory = np.array(memory)
        return actions

    def restart(self, i: int) -> None:
        """Clear the memory of environment i, which has started another episode."""
        self.memory[i] = 0.0
