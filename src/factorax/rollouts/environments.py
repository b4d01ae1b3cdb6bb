"""`Environments`: what single and vector environments on the host have in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from ..problems.failures import EpisodeLost
from ..spaces import ActionSpace
from .transitions import RunningEpisodes, Transition


class Environments(ABC):
    """B environments that are stepped in this process; ended ones are reset. In messages they are numbered from
    `first`."""

    together: int
    """Number of environments that are replaced together."""

    def __init__(
        self,
        factory: Callable[[], Any],
        n_envs: int,
        space: ActionSpace,
        n_targets: int,
        *,
        n_factors: int | None = None,
        first: int = 0,
    ):
        self.factory, self.n_envs, self.space, self.n_targets = factory, n_envs, space, n_targets
        self.n_factors, self.first = n_factors, first
        self.obs: Any = None
        """Current observations, ``(B, d)``."""
        self.episodes = np.zeros((n_envs, n_targets)), np.zeros(n_envs, np.int64)
        """Summed targets and lengths of the episodes in progress."""
        self.seeds: list[int] = [0] * n_envs
        """Seeds of the episodes in progress; for vectors that draw their own seeds, the seed of their first reset."""
        self.began = np.full(n_envs, -1)
        self.rngs: list[np.random.Generator] = []
        """Generators for the seeds of later episodes, one per environment."""

    @abstractmethod
    def begin(self, seeds: Sequence[int], lost: dict[int, EpisodeLost] | None = None) -> None:
        """Start an episode in each environment with its seed."""

    @abstractmethod
    def collect(
        self, act: Callable[[np.ndarray], np.ndarray], n_steps: int, lost: dict[int, EpisodeLost] | None = None
    ) -> Transition:
        """Return `n_steps` transitions of all environments, ``[T, B, ...]``."""

    def adopt(self, i: int, other: Any) -> None:
        """Replace environment i, or the vector that starts with it, by the only one of `other`, with its episodes."""
        rows = slice(i, i + self.together)
        self.obs[rows], self.seeds[rows], self.began[rows] = other.obs, other.seeds, other.began
        for ours, theirs in zip(self.episodes, other.episodes, strict=True):
            ours[rows] = theirs

    def init(self, seed: int) -> None:
        """Start the first episodes; environment i is seeded with seed + i."""
        numbers = range(self.first, self.first + self.n_envs)
        self.rngs = [np.random.default_rng([abs(seed), i]) for i in numbers]
        self.begin([seed + i for i in numbers])

    def step(self, actions: np.ndarray) -> Transition:
        """Make one step in all environments; return the transition, ``[1, B, ...]``, for flat actions ``(B, c)``."""
        return self.collect(lambda obs: actions, 1)

    @property
    def running(self) -> RunningEpisodes:
        """The episodes in progress after a rollout."""
        return RunningEpisodes(np.array(self.seeds, np.int64), self.began.copy(), self.obs.copy())

    def another(self, i: int, factory: Callable[[], Any] | None = None) -> Self:
        """Create environment i, or the vector that starts with it, once more."""
        return type(self)(
            self.factory if factory is None else factory,
            self.together,
            self.space,
            self.n_targets,
            n_factors=self.n_factors,
            first=self.first + i,
        )

    def restart(self, i: int) -> None:
        """Replace the lost environment i, or the vector that starts with it, by a new one with new episodes."""
        row = self.another(i)
        row.begin([int(rng.integers(2**31)) for rng in self.rngs[i : i + self.together]])
        self.adopt(i, row)
