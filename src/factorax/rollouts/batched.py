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

from .._text import counted, warn
from ..problems.failures import EpisodeLost
from ..problems.vectors import create
from ..spaces import ActionSpace
from ..structure import StructureWarning
from .environments import Environments
from .episodes import Episode
from .returned import Misfit
from .transitions import OPTIONAL, Transition, first_not_finite, sum_episodes
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
        """The call of each transition of the last rollout, ``[T, B]``."""
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
            record.count += 1
        self.obs = now
        if bad := first_not_finite(record.psi[: record.count], record.next_obs[: record.count]):
            step, i, what = bad
            name = self.vectors[i // self.together].name
            raise FloatingPointError(f"environment {self.first + i} ({name}), step {step + 1} of a rollout: {what}")
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
        super().adopt(i, other)
        self.vectors[i // self.together] = other.vectors[0]

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


class Calls:
    """The results of at most C calls of B environments, ``[C, B, ...]``. Some calls only reset an environment."""

    def __init__(self, most: int, n_envs: int, n_inputs: int, n_components: int, n_targets: int):
        shape = self.shape = most, n_envs
        self.obs, self.next_obs = np.zeros((*shape, n_inputs), np.float32), np.zeros((*shape, n_inputs), np.float32)
        self.action, self.psi = np.zeros((*shape, n_components), np.float32), np.zeros((*shape, n_targets))
        self.terminated, self.truncated, self.real = (np.zeros(shape, bool) for _ in range(3))
        self.optional: dict[str, Any] = dict.fromkeys(OPTIONAL)
        self.count = 0

    def write(self, rows: slice, obs: np.ndarray, action: np.ndarray, got: Rows) -> None:
        """Record the result of a call of some environments, as copies, since environments may modify their arrays."""
        c = self.count
        self.obs[c, rows], self.action[c, rows], self.next_obs[c, rows] = obs, action, got.next_obs
        self.psi[c, rows], self.terminated[c, rows], self.truncated[c, rows] = got.psi, got.terminated, got.truncated
        self.real[c, rows] = True if got.resets is None else ~got.resets
        for name, (entries, there) in got.optional.items():
            if self.optional[name] is None:
                self.optional[name] = np.full((*self.shape, entries.shape[1]), OPTIONAL[name])
            self.optional[name][c, rows][there] = entries[there]

    def transitions(
        self, n_steps: int, episodes: tuple[np.ndarray, np.ndarray]
    ) -> tuple[Transition, np.ndarray, np.ndarray, list[tuple[int, np.ndarray]]]:
        """Return the first `n_steps` transitions of each environment, and what else is needed of the calls.

        The results are the transitions ``[T, B, ...]``; the call of each transition; the step before which the episodes
        in progress began, −1 if earlier; and all episodes that ended. `episodes` are the summed targets and lengths of
        the episodes in progress before these calls, and are updated.
        """
        ends = np.argwhere(self.terminated | self.truncated)
        returns, lengths = sum_episodes(self.psi, self.real, ends, episodes, self.count)
        finished, last = [(int(i), returns[c, i].copy()) for c, i in ends], np.full(self.shape[1], -1)
        last[ends[:, 1]] = ends[:, 0]
        names = ("obs", "action", "psi", "next_obs", "terminated", "truncated")
        fields: dict[str, Any] = {name: getattr(self, name) for name in names}
        fields |= self.optional | {"episode_psi": returns, "episode_length": lengths}
        # Lost environments have made too few transitions; the missing ones stay zeros.
        calls, columns = np.argsort(~self.real, axis=0, kind="stable")[:n_steps], np.arange(self.shape[1])
        fields = {name: None if array is None else array[calls, columns] for name, array in fields.items()}
        n_made = np.cumsum(self.real, axis=0)
        last = np.where(last >= 0, np.minimum(n_made[last, columns], n_steps), -1)
        fields["psi"] = fields["psi"].astype(np.float32)
        return Transition(**fields), calls, last, finished


def replayed(vector: Vector, episodes: Sequence[Episode], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Bring the environments of a vector to the current step of these episodes.

    Returns the summed targets ``(n, m)`` and lengths ``(n,)`` of the episodes. The longest episode is replayed from
    its first step. The environments of shorter episodes are stepped along and reset with their seeds later, so that
    all episodes end in the same step. Raises `EpisodeLost` if an episode does not repeat, or if the vector draws its
    own seeds.
    """
    if not vector.seeded:
        raise EpisodeLost(
            f"{vector.name} resets its environments with its own seeds, so its episodes cannot be replayed; want "
            "gymnasium.vector.SyncVectorEnv or AsyncVectorEnv, or a vector environment with "
            "metadata['seed_per_env']"
        )
    actions = [np.concatenate([*episode.actions, np.zeros((0, len(vector.space)), np.float32)]) for episode in episodes]
    lengths, seeds = np.array([len(each) for each in actions]), [episode.seed for episode in episodes]
    longest = int(lengths.max())
    starts = longest - lengths
    waiting = np.stack([each[0] if len(each) else np.zeros(len(vector.space), np.float32) for each in actions])
    obs = vector.begin(seeds)
    psi, over = np.zeros((longest, n, vector.n_targets)), np.zeros(n, bool)
    for t in range(longest + 1):
        again = ((starts == t) & (t > 0)) | over
        if again.any():
            obs = np.where(again[:, None], vector.reset(again, seeds), obs)
        if t == longest:
            break
        chosen = np.where(
            (starts <= t)[:, None],
            [each[t - s] if t >= s else w for each, s, w in zip(actions, starts, waiting, strict=True)],
            waiting,
        )
        got = vector.step(chosen)
        psi[t], obs, over = got.psi, got.next_obs, got.terminated | got.truncated
        if (over & (starts <= t)).any():
            raise _other(int(np.flatnonzero(over & (starts <= t))[0]), episodes)
    for i, episode in enumerate(episodes):
        if not np.array_equal(np.float32(obs[i]), episode.obs):
            raise _other(i, episodes)
    totals = np.zeros((n, vector.n_targets))
    for i, episode in enumerate(episodes):
        begin = starts[i]
        for part in episode.actions:  # summed in the original order
            totals[i] += psi[begin : begin + len(part), i].sum(axis=0)
            begin += len(part)
    return totals, lengths


def _other(i: int, episodes: Sequence[Episode]) -> EpisodeLost:
    episode = episodes[i]
    return EpisodeLost(
        f"its environment {i}, replayed with seed {episode.seed} and the same {counted(episode.length, 'action')}, "
        "gave different observations, so the episodes cannot be continued; want an environment that draws all random "
        "numbers from the seed of its reset"
    )
