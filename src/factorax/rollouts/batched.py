"""Several vector environments, each stepped with one call, with the interface of `HostEnvironments`.

A call of `step` returns one transition per environment, with one exception: a vector that resets its environments in
the call after their end (`Vector.skips`) returns none for those. It is stepped until each of its environments has made
all transitions of the rollout. Extra transitions of the other environments are not used for learning, but count in the
returns and lengths of their episodes.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..problems.failures import EpisodeLost
from ..problems.vectors import create
from ..spaces import ActionSpace
from ..structure import StructureWarning
from ..structure.labels import warn
from .calls import Calls
from .environments import Environments
from .episodes import Episode
from .realigning import replayed
from .returned import Misfit
from .transitions import Transition
from .vector import Rows, Vector, check_multiple


class BatchedEnvironments(Environments):
    """B environments in vectors of n. Ended environments are reset, with their own seed if the vector supports it.

    In messages they are numbered `first`, `first` + 1, …. If a vector loses an episode (`EpisodeLost`), the episodes
    of all its environments are lost, because their states are unknown.
    """

    def __init__(self, factory: Callable[[], Any], n_envs: int, space: ActionSpace, n_targets: int, **options: Any):
        super().__init__(factory, n_envs, space, n_targets, **options)
        self.vectors: list[Vector] = [self._made()]
        self.together = n = self.vectors[0].n
        check_multiple(n_envs, n)
        self.vectors += [self._made() for _ in range(n_envs // n - 1)]
        self.finished: list[tuple[int, np.ndarray]] = []
        """Environment and targets of all episodes that ended in the last rollout."""
        self.calls: np.ndarray | None = None
        """The call of each transition of the last rollout, ``[T, B]``, if it differs from the step."""
        self.at = 0
        """The vector that is currently called, for messages."""

    def _made(self) -> Vector:
        like = self.vectors[0].env.single_action_space if hasattr(self, "vectors") else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StructureWarning)  # already shown when the first environment was created
            env = create(self.factory)
        try:
            return Vector(env, self.space, self.n_targets, self.n_factors, like)
        except Misfit as error:
            raise ValueError(f"vector environment {type(env).__name__}: {error}") from None

    @property
    def local(self) -> Any:
        """The function `local` of the environments, which returns local observations; None if there is none."""
        return self.vectors[0].one.unwrapped.local

    @property
    def calls_per_step(self) -> int:
        """Maximum number of calls per step."""
        return 2 if self.vectors[0].skips else 1

    def begin(self, seeds: Sequence[int], lost: dict[int, EpisodeLost] | None = None) -> None:
        """Start an episode in each environment with its seed."""
        self.seeds = [int(seed) for seed in seeds]
        self.obs = np.zeros((self.n_envs, self.vectors[0].size), np.float32)
        for v, vector in enumerate(self.vectors):
            with self._watching(v, lost, f"reset with seeds from {seeds[v * self.together]}"):
                self.obs[self._rows(v)] = vector.begin(seeds[self._rows(v)])
        if self.first == 0 and self.vectors[0].ignores_mask:
            warn(
                "info['action_mask']: is ignored, so the policy may choose invalid actions; make it part of the "
                "observation: wrap single environments with fx.wrap(make, network, observe=['action_mask']) and "
                "vectorise those, or return Dict observations with an entry 'action_mask'"
            )

    def begin_again(self, lost: dict[int, EpisodeLost] | None = None) -> str:
        """Start the episodes of the first vector again, with the same seeds; return its name."""
        with self._watching(0, lost, f"reset again with seeds from {self.seeds[0]}"):
            self.obs[self._rows(0)] = self.vectors[0].begin(self.seeds[self._rows(0)])
        return self.vectors[0].name

    def _rows(self, v: int) -> slice:
        return slice(v * self.together, (v + 1) * self.together)

    def collect(
        self, act: Callable[[np.ndarray], np.ndarray], n_steps: int, lost: dict[int, EpisodeLost] | None = None
    ) -> Transition:
        """Return `n_steps` transitions of all environments, ``[T, B, ...]``. Errors name the vector that raised them.

        A vector that loses its episodes is closed, and the index of its first environment is added to `lost` if given.
        Its transitions are then zeros, and the caller must replace it (see `adopt`).
        """
        now = self.obs.copy()
        record = Calls(n_steps * self.calls_per_step, self.n_envs, now.shape[1], len(self.space), self.n_targets)
        n_made, restart = np.zeros(self.n_envs, np.int64), getattr(act, "restart", None)  # recurrent policies have it
        playing = [v for v in range(len(self.vectors)) if lost is None or v * self.together not in lost]
        while playing:
            chosen = act(now)
            for v in list(playing):
                rows = self._rows(v)
                with self._watching(v, lost):
                    got = self.vectors[v].step(chosen[rows])
                    record.write(rows, now[rows], chosen[rows], got)
                    now[rows] = self._following(v, got)
                    if restart is not None:
                        for i in np.flatnonzero(got.terminated | got.truncated):
                            restart(rows.start + int(i))
                    n_made[rows] += 1 if got.resets is None else ~got.resets
                if n_made[rows].min() >= n_steps or (lost is not None and v * self.together in lost):
                    playing.remove(v)
            record.next()
        self.obs = now
        self._check_finite(record)
        transitions, self.calls, self.began, self.finished = record.transitions(n_steps, self.episodes)
        return transitions

    def _following(self, v: int, got: Rows) -> np.ndarray:
        """Return the observations for the next actions of a vector; reset ended environments if that is our task."""
        over = got.terminated | got.truncated
        vector = self.vectors[v]
        if not over.any() or vector.skips:
            return got.next_obs
        if got.first is not None:
            return np.where(over[:, None], got.first, got.next_obs)
        begin = v * self.together
        if vector.seeded:
            for i in np.flatnonzero(over):
                self.seeds[begin + i] = int(self.rngs[begin + i].integers(2**31))
        first = vector.reset(over, self.seeds[self._rows(v)])
        return np.where(over[:, None], first, got.next_obs)

    def restore(self, episodes: Sequence[Episode], lost: dict[int, EpisodeLost]) -> None:
        """Replay all episodes to their current step; vectors with an episode that does not repeat are lost."""
        self.obs = np.stack([episode.obs for episode in episodes])
        self.seeds = [episode.seed for episode in episodes]
        for v, vector in enumerate(self.vectors):
            rows = self._rows(v)
            with self._watching(v, lost, "replaying episodes"):
                totals, lengths = replayed(vector, episodes[rows], self.together)
                self.episodes[0][rows], self.episodes[1][rows] = totals, lengths

    def adopt(self, i: int, other: Any) -> None:
        """Replace the vector that starts with environment i by the only one of `other`, with its episodes."""
        rows = slice(i, i + self.together)
        self.vectors[i // self.together], self.obs[rows] = other.vectors[0], other.obs
        self.seeds[rows], self.began[rows] = other.seeds, other.began
        for ours, theirs in zip(self.episodes, other.episodes, strict=True):
            ours[rows] = theirs

    def close(self) -> None:
        """Close all environments."""
        for vector in self.vectors:
            vector.close()

    def where(self, v: int | None = None) -> str:
        """Return the environments of a vector and its current step, for messages."""
        v = self.at if v is None else v
        begin = self.first + v * self.together
        vector = self.vectors[v]
        return f"environments {begin} to {begin + self.together - 1} ({vector.name}), step {vector.time}"

    @contextlib.contextmanager
    def _watching(self, v: int, lost: dict[int, EpisodeLost] | None, doing: str = "") -> Iterator[None]:
        """Add the vector to errors; add a vector that lost its episodes to `lost` and close it."""
        self.at = v
        try:
            yield
        except EpisodeLost as error:
            if lost is None:
                error.add_note(f"in {self.where(v)}")
                raise
            lost[v * self.together] = error
            self.vectors[v].abandon()
        except Misfit as error:
            raise ValueError(f"{self.where(v)}{doing and f', {doing}'}: {error}") from None
        except Exception as error:
            error.add_note(f"in {self.where(v)}{doing and f', {doing}'}")
            raise

    def _check_finite(self, record: Calls) -> None:
        """Raise FloatingPointError at the first non-finite target or following observation."""
        bad = record.first_not_finite()
        if bad is not None:
            step, i, what = bad
            name = self.vectors[i // self.together].name
            raise FloatingPointError(f"environment {self.first + i} ({name}), step {step + 1} of a rollout: {what}")
