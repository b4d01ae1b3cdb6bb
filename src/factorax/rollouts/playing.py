"""What a worker does, whichever process it is in: play the fragments of some environments.

All that is random in a fragment of an environment is drawn from one generator, seeded with the iteration's entropy and
the environment's number. So it does not matter who plays it, beside what, or for the how manieth time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import gymnasium as gym
import numpy as np

from ..problems.failures import EpisodeLost
from .actor import Actor, Parameters
from .episodes import Episode
from .host import HostEnvironments
from .transitions import Fragment, Transition, side_by_side

ATTEMPTS = 10
"""How often a fragment may lose an episode before it is given up."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What all fragments have in common."""

    make: Callable[[], gym.Env]
    actor: Actor
    n_envs: int
    n_steps: int
    n_inputs: int
    n_factors: int
    n_targets: int
    log_probs: bool = False
    """Whether the log-probabilities of actions are wanted, too."""
    own_local: bool = False
    """Whether what factors see is made by the environment's own `local`, which need not be sent to a worker then."""


class Iteration(NamedTuple):
    """What the fragments of one iteration have in common."""

    parameters: Parameters
    entropy: tuple[int, ...]
    """What the random numbers come from, beside an environment's number."""
    seed: int | None
    """First episodes are seeded with this plus the environment's number; None: as all others, by entropy."""


class Player:
    """The environments from `first` to before `end`, and the actor for them."""

    def __init__(self, plan: Plan, first: int, end: int):
        self.plan, self.first = plan, first
        self.hosts = self._row(plan.make, end - first, 0)
        local = self.hosts.envs[0].unwrapped.local if plan.own_local else plan.actor.local
        self.actor = replace(plan.actor, local=local)

    def _row(self, make: Callable[[], gym.Env], size: int, i: int) -> HostEnvironments:
        space = self.plan.actor.components
        return HostEnvironments(make, size, space, self.plan.n_targets, first=self.first + i)

    def play(self, iteration: Iteration, episodes: Sequence[Episode] | None = None) -> Fragment:
        """The fragments of all environments, one after the other where they were, or where `episodes` say.

        If an environment loses its episode (`EpisodeLost`), its fragment is discarded, whole; it is made anew, begins
        an episode, and plays the fragment again, with random numbers that come from the entropy, its number and the
        count of attempts.
        """
        lost: dict[int, EpisodeLost] = {}
        if episodes is not None:
            self._restore(episodes, lost)
        seen = self._collect(self.hosts, iteration, lost)
        messages = []
        for i in sorted(lost):
            again, errors = self._again(iteration, i, lost[i])
            messages += [f"environment {self.first + i} began an episode anew: {error}" for error in errors]
            seen = side_by_side([_columns(seen, 0, i), again, _columns(seen, i + 1, self.hosts.n_envs)])
        return Fragment(seen, self.hosts.running, tuple(messages))

    def close(self) -> None:
        """Close all environments."""
        self.hosts.close()

    def _collect(
        self, hosts: HostEnvironments, iteration: Iteration, lost: dict[int, EpisodeLost], attempt: int = 0
    ) -> Transition:
        plan, numbers = self.plan, range(hosts.first, hosts.first + hosts.n_envs)
        hosts.rngs = [np.random.default_rng([*iteration.entropy, i, attempt]) for i in numbers]
        noise = [self.actor.draw(rng, iteration.parameters, plan.n_steps) for rng in hosts.rngs]
        if hosts.obs is None:
            seeds = [int(rng.integers(2**31)) for rng in hosts.rngs]
            if iteration.seed is not None and not attempt:
                seeds = [iteration.seed + i for i in numbers]
            hosts.begin(seeds, lost)
        self._check_inputs(hosts)
        given: list[np.ndarray] | None = [] if plan.log_probs else None
        act = self.actor.playing(iteration.parameters, hosts.first, np.stack(noise, axis=1), given)
        seen = hosts.collect(act, plan.n_steps, lost)
        if given is None:
            return seen
        return seen._replace(log_prob=self.actor.log_prob(iteration.parameters, np.stack(given), seen.action))

    def _check_inputs(self, hosts: HostEnvironments) -> None:
        assert hosts.obs is not None
        if hosts.obs.shape[1] != self.plan.n_inputs:
            raise ValueError(
                f"observations: got {hosts.obs.shape[1]} numbers from environment {hosts.first}, want "
                f"{self.plan.n_inputs}, as its observation space says"
            )

    def _again(self, iteration: Iteration, i: int, error: EpisodeLost) -> tuple[Transition, list[EpisodeLost]]:
        """A fragment that was lost by environment i, ``[T, 1, ...]``, and every error on the way to it."""
        errors = [error]
        for attempt in range(1, ATTEMPTS):
            row, lost = self._row(self.plan.make, 1, i), {}
            seen = self._collect(row, iteration, lost, attempt)
            if not lost:
                row.began[0] = max(row.began[0], 0)
                self.hosts.adopt(i, row)
                return seen, errors
            errors.append(lost[0])
        raise EpisodeLost(
            f"environment {self.first + i} lost {ATTEMPTS} episodes one after the other, the last by: {errors[-1]}"
        ) from errors[-1]

    def _restore(self, episodes: Sequence[Episode], lost: dict[int, EpisodeLost]) -> None:
        """Play all episodes again up to where they were; those that come out otherwise are lost."""
        hosts = self.hosts
        hosts.obs = np.zeros((hosts.n_envs, self.plan.n_inputs), np.float32)
        for i, episode in enumerate(episodes):
            row = self._row(partial(list.__getitem__, hosts.envs, i), 1, i)
            row.rngs, gone = [np.random.default_rng(0)], {}
            row.begin([episode.seed], gone)
            ended = False
            for part in episode.actions:
                if len(part):
                    steps = iter(part[:, None])
                    seen = row.collect(lambda obs, steps=steps: next(steps), len(part), gone)
                    ended = ended or bool((seen.terminated | seen.truncated).any())
            if not gone and (ended or not np.array_equal(row.running.obs[0], episode.obs)):
                gone[0] = EpisodeLost(
                    f"with the seed {episode.seed} and the same {episode.length} actions it gave something else than "
                    "before, so the episode cannot be taken up where its worker left it; an environment should draw "
                    "all that is random from the seed of its reset"
                )
                row.lose(0, gone[0], gone)
            hosts.adopt(i, row)
            if gone:
                lost[i] = gone[0]


def _columns(seen: Transition, first: int, end: int) -> Transition:
    return Transition(*(None if field is None else field[:, first:end] for field in seen))
