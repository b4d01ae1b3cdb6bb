"""Rollouts of Gymnasium environments: in this process, in worker processes, or by Ray actors."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from .._text import counted
from ..networks.jax_policy import JaxPolicy
from ..networks.numpy_policy import NumpyPolicy
from ..spec import Spec
from .backend import Backend, InlineBackend
from .collector import Behaviour, Collector
from .cores import available_cores
from .data_checks import DataCheck
from .environments import check_multiple
from .episodes import Episode
from .player import Iteration, Plan
from .processes import ProcessBackend
from .ray_actors import RayBackend
from .settings import Inline, Processes, Ray, Rollouts
from .transitions import Transition

MAX_EVALUATION_STEPS = 32
"""Maximum number of steps of a fragment of an evaluation: it ends with the fragment in which its last episode ends."""


class HostCollector(Collector):
    """Rollouts on the host. A `Backend` steps the environments and is started by the first rollout."""

    traced = False

    def __init__(
        self,
        spec: Spec,
        *,
        rollouts: Rollouts,
        n_envs: int,
        n_steps: int,
        seed: int,
        policy: NumpyPolicy | JaxPolicy,
    ):
        """Create a collector; arguments are as for `collector_for`."""
        check_multiple(n_envs, spec.num_envs or 1)
        self.spec, self.rollouts, self.seed = spec, rollouts, seed
        self._sizes, self._policy = (n_envs, n_steps), policy
        self.overlap = isinstance(rollouts, Processes) and rollouts.overlap
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
        if self._backend is None:
            self._backend = self._start(self.plan)
            self._backend.episodes = self._restored
            if self._restored is not None or self._began:
                self._data_check = None  # training was resumed, or has begun earlier
        backend = self._backend
        if not self.overlap:
            transitions = backend.collect(self.iteration(behaviour, key))
        else:
            self._policy_lag = int(backend.in_flight)
            if not self._policy_lag:
                backend.begin(self.iteration(behaviour, key))
            transitions = backend.finish()
        if self._data_check is not None:
            self._data_check.transitions(transitions)
        if self.overlap:
            backend.begin(self.iteration(behaviour, key, ahead=1))  # for the next update
        return None, key, transitions

    def iteration(self, behaviour: Behaviour, key: Any, ahead: int = 0) -> Iteration:
        """Return the data with which workers continue; `ahead` is the number of rollouts that are started early."""
        from jax import random

        words = np.asarray(random.key_data(key)).ravel()  # changes with every update
        # A resumed run starts other episodes, and so does training that starts again with the same model.
        seed = None if self._began or int(behaviour.timesteps) else self.seed
        return Iteration(behaviour.arrays(), (*(int(word) for word in words), ahead), seed)

    def metrics(self) -> dict[str, Any]:
        """Return the age in updates of the policy of the last rollout, with `overlap`."""
        return {} if self._policy_lag is None else {"rollout/policy_lag": np.int32(self._policy_lag)}

    @cached_property
    def plan(self) -> Plan:
        """The data common to all workers."""
        spec, policy, (n_envs, n_steps) = self.spec, self._policy, self._sizes
        # Workers read it from their environments, so that it need not be sent to them.
        own_local = spec.problem_defines_local and policy.local is not None
        make: Any = spec.problem
        return Plan(
            make=make,
            policy=replace(policy, local=None) if own_local else policy,
            n_envs=n_envs,
            n_steps=n_steps,
            n_inputs=spec.n_inputs,
            n_factors=spec.n_factors,
            n_targets=spec.n_targets,
            log_probs=self.overlap,
            num_envs=spec.num_envs,
            own_local=own_local,
        )

    def _start(self, plan: Plan) -> Backend:
        rollouts, alone = self.rollouts, self.spec.one_per_process
        workers = rollouts.workers if isinstance(rollouts, Processes) else 1
        if alone and 0 < workers < plan.n_envs:
            raise ValueError(
                f"rollouts: got {str(rollouts)!r} for {counted(plan.n_envs, 'environment')}, but a process can hold "
                f"only one of these; want 'processes,workers={plan.n_envs}', the same with 'ray', or n_envs=1"
            )
        if not isinstance(rollouts, Processes):
            return InlineBackend(plan, rollouts.seconds if isinstance(rollouts, Inline) else np.inf)
        workers = workers or (plan.n_batches if alone else available_cores())
        if isinstance(rollouts, Ray):
            return RayBackend(plan, workers, rollouts.seconds, address=rollouts.address, cpus=rollouts.cpus)
        return ProcessBackend(plan, workers, rollouts.seconds)

    def play_episodes(self, behaviour: Behaviour, episodes: int, *, deterministic: bool, seed: int) -> np.ndarray:
        """Play episodes in up to `n_envs` other environments, each with its share of the episodes, where rollouts are
        played: in this process, or by other workers."""
        inline = not isinstance(self.rollouts, Processes)
        alone = inline and self.spec.one_per_process
        # A vector is stepped as a whole, even if some environments have no share.
        count = self.spec.num_envs or (1 if alone else min(episodes, self._sizes[0]))
        if alone and self._backend is not None:  # its episode is replayed when training continues
            self._restored = self._backend.episodes
            self._backend.close()
            self._backend = None
        n_steps, sampling = (
            min(self._sizes[1], MAX_EVALUATION_STEPS),
            {"deterministic": deterministic, "log_probs": False, "check_seed": False},
        )
        backend = self._start(replace(self.plan, n_envs=count, n_steps=n_steps, **sampling))
        parameters, returns = behaviour.arrays(), [[] for _ in range(count)]
        # Not the first episodes to end, which would be biased towards short ones.
        share = [len(range(i, episodes, count)) for i in range(count)]
        try:
            for k in itertools.count():
                transitions = backend.collect(Iteration(parameters, (seed, k), seed))
                ended = np.argwhere(transitions.episode_length > 0)
                for i, psi in [*((i, transitions.episode_psi[t, i].copy()) for t, i in ended), *backend.late]:
                    returns[i].append(psi)
                if all(len(r) >= s for r, s in zip(returns, share, strict=True)):
                    break
        finally:
            backend.close()
        return np.concatenate([np.reshape(r[:s], (s, -1)) for r, s in zip(returns, share, strict=True) if s])

    def close(self) -> None:
        """Stop all environments and workers. Set `episodes` to continue with the episodes in progress."""
        backend, self._backend, self._restored = self._backend, None, None
        if backend is not None:
            self._began = True
            backend.close()
