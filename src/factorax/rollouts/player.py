"""The task of a worker in any process: play fragments of some environments.

All random numbers of an environment's fragment are drawn from one generator, seeded with the iteration's entropy and
the environment's index. A fragment can therefore be replayed by any worker, any number of times, with the same result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._text import counted
from ..networks.jax_policy import JaxPolicy, ModuleArrays
from ..networks.numpy_policy import NumpyPolicy, PolicyArrays
from ..problems.failures import EpisodeLost
from .batched import BatchedEnvironments
from .episodes import Episode
from .host import HostEnvironments
from .seeding import repeated
from .transitions import Fragment, Transition, side_by_side

ATTEMPTS = 10
"""Maximum number of episodes that a fragment may lose before an error is raised."""
Hosts = HostEnvironments | BatchedEnvironments


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """The data common to all fragments."""

    make: Callable[[], Any]
    """Creates a Gymnasium environment or vector environment."""
    policy: NumpyPolicy | JaxPolicy
    n_envs: int
    n_steps: int
    n_inputs: int
    n_factors: int
    n_targets: int
    log_probs: bool = False
    """Whether to return the log-probabilities of actions."""
    num_envs: int | None = None
    """Number of sub-environments of a vector environment; None if environments are created one by one."""
    own_local: bool = False
    """Whether local observations come from the environment's `local`, which then need not be sent to workers."""


class Iteration(NamedTuple):
    """The data common to the fragments of one iteration."""

    parameters: PolicyArrays | ModuleArrays
    entropy: tuple[int, ...]
    """Seed of all random numbers, together with an environment's index."""
    seed: int | None
    """The seed of the first episodes minus the environment's index; None if it is drawn from the entropy as for
    others."""


class Player:
    """The environments from `first` up to `end` (exclusive), and their policy."""

    def __init__(self, plan: Plan, first: int, end: int):
        self.plan, self.first = plan, first
        kind = HostEnvironments if plan.num_envs is None else BatchedEnvironments
        self.hosts: Hosts = kind(
            plan.make, end - first, plan.policy.space, plan.n_targets, n_factors=plan.n_factors, first=first
        )
        local = self.hosts.local if plan.own_local else plan.policy.local
        self.policy: Any = replace(plan.policy, local=local)
        self.memory = np.zeros((end - first, plan.policy.memory), np.float32)
        if plan.policy.memory and isinstance(self.hosts, BatchedEnvironments) and self.hosts.calls_per_step > 1:
            raise ValueError(
                "architecture: got a recurrent policy with a vector environment that resets itself in the next call of "
                "step (AutoresetMode.NEXT_STEP); want AutoresetMode.SAME_STEP or DISABLED, or a vector that can reset "
                'single environments with seeds, such as gym.make_vec(…, vectorization_mode="sync")'
            )

    def play(self, iteration: Iteration, episodes: Sequence[Episode] | None = None) -> Fragment:
        """Return the fragments of all environments, continuing their current episodes, or `episodes` if given.

        If an environment loses its episode (`EpisodeLost`), its whole fragment is discarded. A new environment starts
        an episode and plays the fragment again, with random numbers seeded by the entropy, its index and the attempt.
        """
        lost: dict[int, EpisodeLost] = {}
        if episodes is not None:
            self._restore(episodes, lost)
        messages: list[str | Warning] = []
        transitions = self._collect(self.hosts, iteration, lost, messages=messages)
        for i in sorted(lost):
            again, errors = self._again(iteration, i, lost[i])
            messages += [f"{self._named(i)} lost its episode and was reset: {error}" for error in errors]
            after = _columns(transitions, i + self.hosts.together, self.hosts.n_envs)
            columns = _columns(transitions, 0, i), again, after
            transitions = side_by_side(columns)
        running = self.hosts.running
        if self.policy.memory:
            running = running._replace(memory=self.memory.copy())
        return Fragment(transitions, running, tuple(messages))

    def close(self) -> None:
        """Close all environments."""
        self.hosts.close()

    def _collect(
        self,
        hosts: Hosts,
        iteration: Iteration,
        lost: dict[int, EpisodeLost],
        attempt: int = 0,
        messages: list[str | Warning] | None = None,
    ) -> Transition:
        plan, numbers = self.plan, range(hosts.first, hosts.first + hosts.n_envs)
        hosts.rngs = [np.random.default_rng([*iteration.entropy, i, attempt]) for i in numbers]
        n_actions = plan.n_steps * hosts.calls_per_step
        noise = [self.policy.draw(rng, iteration.parameters, n_actions) for rng in hosts.rngs]
        if hosts.obs is None:
            seeds = [int(rng.integers(2**31)) for rng in hosts.rngs]
            if iteration.seed is not None and not attempt:
                seeds = [iteration.seed + i for i in numbers]
            hosts.begin(seeds, lost)
            if hosts.first == 0 and iteration.seed is not None and messages is not None:
                messages += repeated(hosts, lost)
        self._check_inputs(hosts)
        outputs: list[np.ndarray] | None = [] if plan.log_probs else None
        rows = slice(hosts.first - self.first, hosts.first - self.first + hosts.n_envs)
        if attempt:
            self.memory[rows] = 0.0
        remembered = {"memory": self.memory[rows]} if self.policy.memory else {}
        act = self.policy.playing(iteration.parameters, hosts.first, np.stack(noise, axis=1), outputs, **remembered)
        transitions = hosts.collect(act, plan.n_steps, lost)
        if self.policy.memory:
            self.memory[rows] = act.memory
            transitions = transitions._replace(memory=np.stack(act.memories))
        if outputs is None:
            return transitions
        of_calls = np.stack(outputs)
        of_steps = of_calls if hosts.calls is None else of_calls[hosts.calls, np.arange(hosts.n_envs)]
        log_prob = self.policy.log_prob(iteration.parameters, of_steps, transitions.action)
        return transitions._replace(log_prob=log_prob)

    def _check_inputs(self, hosts: Hosts) -> None:
        if hosts.obs.shape[1] != self.plan.n_inputs:
            raise ValueError(
                f"observations: got {counted(hosts.obs.shape[1], 'number')} from environment {hosts.first}, want "
                f"{self.plan.n_inputs}, as in its observation space"
            )

    def _again(self, iteration: Iteration, i: int, error: EpisodeLost) -> tuple[Transition, list[EpisodeLost]]:
        """Return the repeated fragment of environment i, ``[T, 1, ...]``, and all errors up to it."""
        errors = [error]
        for attempt in range(1, ATTEMPTS):
            row, lost = self.hosts.another(i), {}
            transitions = self._collect(row, iteration, lost, attempt)
            if not lost:
                row.began = np.maximum(row.began, 0)
                self.hosts.adopt(i, row)
                return transitions, errors
            errors.append(lost[0])
        raise EpisodeLost(
            f"{self._named(i)} lost {ATTEMPTS} episodes in a row, the last because of: {errors[-1]}"
        ) from errors[-1]

    def _named(self, i: int) -> str:
        """Return environment i, or the vector that starts with it, for messages."""
        number, n = self.first + i, self.plan.num_envs
        return f"environment {number}" if n is None else f"the vector of environments {number} to {number + n - 1}"

    def _restore(self, episodes: Sequence[Episode], lost: dict[int, EpisodeLost]) -> None:
        """Replay all episodes to their current step; episodes that do not repeat are lost."""
        hosts = self.hosts
        for i, episode in enumerate(episodes):
            self.memory[i] = 0.0 if episode.memory is None else episode.memory
        if isinstance(hosts, BatchedEnvironments):
            hosts.restore(episodes, lost)
            return
        hosts.obs = np.zeros((hosts.n_envs, self.plan.n_inputs), np.float32)
        for i, episode in enumerate(episodes):
            row = hosts.another(i, partial(list.__getitem__, hosts.envs, i))
            row.rngs, gone = [np.random.default_rng(0)], {}
            row.begin([episode.seed], gone)
            ended = False
            for part in episode.actions:
                if len(part):
                    steps = iter(part[:, None])
                    replayed = row.collect(lambda obs, steps=steps: next(steps), len(part), gone)
                    ended = ended or bool((replayed.terminated | replayed.truncated).any())
            if not gone and (ended or not np.array_equal(row.running.obs[0], episode.obs)):
                gone[0] = EpisodeLost(
                    f"a replay with seed {episode.seed} and the same {counted(episode.length, 'action')} gave "
                    "different observations, so the episode cannot be continued; want an environment that draws all "
                    "random numbers from the seed of its reset"
                )
                row.lose(0, gone[0], gone)
            hosts.adopt(i, row)
            if gone:
                lost[i] = gone[0]


def _columns(transitions: Transition, first: int, end: int) -> Transition:
    return Transition(*(None if field is None else field[:, first:end] for field in transitions))
