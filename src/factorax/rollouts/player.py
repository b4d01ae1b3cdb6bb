"""The task of a worker in any process: play fragments of some environments.

All random numbers of an environment's fragment are drawn from one generator, seeded with the iteration's entropy and
the environment's index. A fragment can therefore be replayed by any worker, any number of times, with the same result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..networks.jax_policy import JaxPolicy
from ..networks.numpy_policy import NumpyPolicy, PolicyArrays
from ..problems.failures import EpisodeLost
from ..spaces import ActionSpace
from .environments import Environments
from .episodes import Episode
from .seeding import repeated
from .transitions import Fragment, Transition, side_by_side

ATTEMPTS = 10
"""Maximum number of episodes that a fragment may lose before an error is raised."""


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
    deterministic: bool = False
    """Whether to choose the most probable actions."""
    check_seed: bool = True
    """Whether to reset the first environment twice, to see whether it is reproducible."""

    @property
    def n_batches(self) -> int:
        """Number of environments or vectors, which is the maximum number of workers."""
        return self.n_envs // (self.num_envs or 1)


class Iteration(NamedTuple):
    """The data common to the fragments of one iteration."""

    parameters: PolicyArrays
    entropy: tuple[int, ...]
    """Seed of all random numbers, together with an environment's index."""
    seed: int | None
    """The seed of the first episodes minus the environment's index; None if it is drawn from the entropy as for
    others."""


class Player:
    """The environments from `first` up to `end` (exclusive), and their policy."""

    def __init__(self, plan: Plan, first: int, end: int):
        self.plan, self.first, policy = plan, first, plan.policy
        self.environments = Environments(
            plan.make, end - first, policy.space, plan.n_targets, n_factors=plan.n_factors, first=first
        )
        if policy.memory and self.environments.calls_per_step > 1:
            self.close()
            raise ValueError(
                "architecture: got a recurrent policy with a vector environment that resets itself in the next call of "
                "step (AutoresetMode.NEXT_STEP); want AutoresetMode.SAME_STEP or DISABLED, or a vector that can reset "
                'single environments with seeds, such as gym.make_vec(…, vectorization_mode="sync")'
            )
        self.policy: Any = replace(policy, local=self.environments.local if plan.own_local else policy.local)
        self.memory = np.zeros((end - first, policy.memory), np.float32)

    def play(self, iteration: Iteration, episodes: Sequence[Episode] | None = None) -> Fragment:
        """Return the fragments of all environments, continuing their current episodes, or `episodes` if given.

        If an environment loses its episode (`EpisodeLost`), its whole fragment is discarded. A new environment starts
        an episode and plays the fragment again, with random numbers seeded by the entropy, its index and the attempt.
        """
        environments = self.environments
        environments.lost = lost = {}
        if episodes is not None:
            environments.restore(episodes)
            for i, episode in enumerate(episodes):
                self.memory[i] = 0.0 if episode.memory is None else episode.memory
        messages: list[str | Warning] = []
        transitions = self._collect(environments, iteration, messages=messages)
        late = [(i, psi) for i, psi in environments.late if i not in lost]
        for i in sorted(lost):
            again, errors, late_again = self._again(iteration, i, lost[i])
            late += late_again
            messages += [f"{self._named(i)} lost its episode and was reset: {error}" for error in errors]
            after = _columns(transitions, i + environments.together, environments.n_envs)
            transitions = side_by_side((_columns(transitions, 0, i), again, after))
        running = environments.running
        if self.policy.memory:
            running = running._replace(memory=self.memory.copy())
        return Fragment(transitions, running, tuple(messages), tuple((self.first + i, psi) for i, psi in late))

    def close(self) -> None:
        """Close all environments."""
        self.environments.close()

    def _collect(
        self,
        environments: Environments,
        iteration: Iteration,
        attempt: int = 0,
        messages: list[str | Warning] | None = None,
    ) -> Transition:
        plan, policy, parameters = self.plan, self.policy, iteration.parameters
        numbers = range(environments.first, environments.first + environments.n_envs)
        # With the attempt, since the same random numbers might lose the episode again.
        environments.rngs = [np.random.default_rng([*iteration.entropy, i, attempt]) for i in numbers]
        n_actions = plan.n_steps * environments.calls_per_step
        # All of it before any seed: how many seeds are drawn from the same generators depends on the ends of episodes.
        noise = [policy.draw(rng, parameters, n_actions) for rng in environments.rngs]
        if environments.obs is None:
            seeds = [int(rng.integers(2**31)) for rng in environments.rngs]
            if iteration.seed is not None and not attempt:
                seeds = [iteration.seed + i for i in numbers]
            environments.begin(seeds)
            if plan.check_seed and environments.first == 0 and iteration.seed is not None and messages is not None:
                messages += repeated(environments)
        outputs: list[np.ndarray] | None = [] if plan.log_probs or plan.deterministic else None
        rows = slice(environments.first - self.first, environments.first - self.first + environments.n_envs)
        # The environments are new, and their episodes begin with an empty memory.
        if attempt:
            self.memory[rows] = 0.0
        memory = {"memory": self.memory[rows]} if policy.memory else {}
        sample = act = policy.playing(parameters, environments.first, np.stack(noise, axis=1), outputs, **memory)
        if plan.deterministic:
            act = _MostProbable(sample, policy.space, outputs)
        transitions = environments.collect(act, plan.n_steps)
        if policy.memory:
            self.memory[rows] = sample.memory
            transitions = transitions._replace(memory=np.stack(sample.memories))
        if not plan.log_probs:
            return transitions
        assert outputs is not None
        of_calls, calls = np.stack(outputs), environments.calls
        of_steps = of_calls if calls is None else of_calls[calls, np.arange(environments.n_envs)]
        return transitions._replace(log_prob=policy.log_prob(parameters, of_steps, transitions.action))

    def _again(self, iteration: Iteration, i: int, error: EpisodeLost) -> tuple[Transition, list[EpisodeLost], Any]:
        """Return the repeated fragment of the batch that begins with environment i, ``[T, n, ...]``, all errors up to
        it, and episodes that ended in extra transitions."""
        errors = [error]
        for attempt in range(1, ATTEMPTS):
            new = self.environments.another(i)
            new.lost = lost = {}
            transitions = self._collect(new, iteration, attempt)
            if not lost:
                # Its episode began in this fragment: with −1, it would be appended to the lost one.
                new.began = np.maximum(new.began, 0)
                self.environments.adopt(i, new)
                return transitions, errors, [(i + k, psi) for k, psi in new.late]
            errors.append(lost[0])
        raise EpisodeLost(
            f"{self._named(i)} lost {ATTEMPTS} episodes in a row, the last because of: {errors[-1]}"
        ) from errors[-1]

    def _named(self, i: int) -> str:
        """Return environment i, or the vector that begins with it, for messages."""
        number, n = self.first + i, self.plan.num_envs
        return f"environment {number}" if n is None else f"the vector of environments {number} to {number + n - 1}"


class _MostProbable:
    """Chooses the most probable actions, for the outputs that a policy appends to a list."""

    def __init__(self, sample: Any, space: ActionSpace, outputs: list[np.ndarray] | None):
        self.sample, self.space, self.outputs = sample, space, outputs
        # `Environments.collect` recognises recurrent policies by this method.
        if hasattr(sample, "restart"):
            self.restart = sample.restart

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """Return actions ``(B, c)``."""
        assert self.outputs is not None
        # Sampling is the only way to the outputs, and updates the memory of a recurrent policy.
        self.sample(obs)
        return self.space.mode(self.outputs.pop())


def _columns(transitions: Transition, first: int, end: int) -> Transition:
    return Transition(*(None if field is None else field[:, first:end] for field in transitions))
