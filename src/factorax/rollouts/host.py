"""Gymnasium environments side by side, stepped by this process."""

import contextlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from ..problems.failures import EpisodeLost
from ..spaces import ActionSpace
from ..structure import StructureWarning
from ..structure.labels import counted
from .transitions import OPTIONAL, RunningEpisodes, Transition, before

_KNOWN = OPTIONAL.keys()


class HostEnvironments:
    """B Gymnasium environments in this process; each is reset in the step in which it ends, with a seed of its own.

    In messages they have the numbers `first`, `first` + 1, ….
    """

    def __init__(
        self, factory: Callable[[], gym.Env], n_envs: int, space: ActionSpace, n_targets: int, *, first: int = 0
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StructureWarning)  # shown when the first environment was made
            self.envs: list[Any] = [factory() for _ in range(n_envs)]
        self.factory, self.n_envs, self.space, self.n_targets, self.first = factory, n_envs, space, n_targets, first
        self._shape = self.envs[0].observation_space.shape or ()
        self.obs: np.ndarray | None = None
        self.episodes = np.zeros((n_envs, n_targets)), np.zeros(n_envs, np.int64)
        self.seeds: list[int] = [0] * n_envs
        """Of the episodes in progress."""
        self.began = np.full(n_envs, -1)
        self.rngs: list[np.random.Generator] = []
        """Generators for the seeds of later episodes, one per environment."""

    def init(self, seed: int) -> None:
        """Start the first episodes; environment i is seeded with seed + i."""
        numbers = range(self.first, self.first + self.n_envs)
        self.rngs = [np.random.default_rng([abs(seed), i]) for i in numbers]
        self.begin([seed + i for i in numbers])

    def begin(self, seeds: Sequence[int], lost: dict[int, EpisodeLost] | None = None) -> None:
        """Start an episode in every environment, each with its seed."""
        self.obs = np.stack([self._reset(i, s, lost) for i, s in enumerate(seeds)])

    def collect(
        self, act: Callable[[np.ndarray], np.ndarray], n_steps: int, lost: dict[int, EpisodeLost] | None = None
    ) -> Transition:
        """`n_steps` transitions of all environments, ``[T, B, ...]``. Errors name the environment that raised them.

        An environment that loses its episode is closed, and entered in `lost` if that is given; a stand-in returns
        zeros for it, and the caller must replace both (see `adopt`).
        """
        assert self.obs is not None
        now = first = self.obs
        shape, envs, to_environments = (n_steps, self.n_envs), self.envs, self.space.to_environments
        row, targets = now.shape[1:], (self.n_targets,)
        next_obs = np.empty((*shape, *row), np.float32)
        psi, actions = np.empty((*shape, *targets)), np.empty((*shape, len(self.space)), np.float32)
        terminated, truncated = np.zeros(shape, bool), np.zeros(shape, bool)
        optional: dict[str, Any] = dict.fromkeys(OPTIONAL)
        ends: list[tuple[int, int]] = []
        begun: list[tuple[int, int, np.ndarray]] = []
        # A simulator evicts this loop from the CPU caches: every call in it costs as if it were the first.
        for t in range(n_steps):
            actions[t] = chosen = act(now)
            last, now, parts, ended_before = now, next_obs[t], psi[t], len(ends)
            for i, action in enumerate(to_environments(chosen)):
                try:
                    observed, reward, ended, cut, info = envs[i].step(action)
                except Exception as error:
                    observed, reward, ended, cut, info = self._failed(i, t, last[i], error, lost)
                vector = info.get("vector_reward", reward)
                # Copied at once: some environments change what they returned.
                now[i] = (
                    observed
                    if type(observed) is np.ndarray and observed.shape == row
                    else self._observation(i, observed, row)
                )
                ours = type(vector) is np.ndarray and vector.shape == targets
                parts[i] = vector if ours else self._targets(i, vector)
                if ended or cut:
                    terminated[t, i], truncated[t, i] = ended, cut
                    ends.append((t, i))
                if not _KNOWN.isdisjoint(info):
                    _note(optional, shape, t, i, info)
            if len(ends) > ended_before:
                now = now.copy()
                for t, i in ends[ended_before:]:
                    seed = int(self.rngs[i].integers(2**31))
                    now[i] = self._reset(i, seed, lost, f" after step {t} of this rollout")
                    begun.append((t, i, now[i]))
            self.obs = now
        obs = before(first, next_obs, begun)
        self.obs = now.copy()  # the caller owns the transitions and may change them
        _check_finite(psi, next_obs, self.first)
        self.began[:] = -1
        for t, i in ends:
            self.began[i] = t + 1
        returns, lengths = self._episodes_that_ended(psi, ends)
        return Transition(
            obs=obs,
            action=actions,
            psi=psi.astype(np.float32),
            next_obs=next_obs,
            terminated=terminated,
            truncated=truncated,
            **optional,
            episode_psi=returns,
            episode_length=lengths,
        )

    def step(self, actions: np.ndarray) -> Transition:
        """One transition of all environments, ``[1, B, ...]``, for flat actions ``(B, c)``."""
        return self.collect(lambda obs: actions, 1)

    @property
    def running(self) -> RunningEpisodes:
        """The episodes in progress after a rollout."""
        assert self.obs is not None
        return RunningEpisodes(np.array(self.seeds, np.int64), self.began.copy(), self.obs.copy())

    def adopt(self, i: int, other: "HostEnvironments") -> None:
        """Replace environment i by the only one of another row, with its episode."""
        assert self.obs is not None
        assert other.obs is not None
        self.envs[i], self.seeds[i], self.began[i], self.obs[i] = (
            other.envs[0],
            other.seeds[0],
            other.began[0],
            other.obs[0],
        )
        for ours, theirs in zip(self.episodes, other.episodes, strict=True):
            ours[i] = theirs[0]

    def restart(self, i: int) -> None:
        """Replace environment i, which was lost, by a new one at the start of an episode."""
        row = HostEnvironments(
            factory=self.factory, n_envs=1, space=self.space, n_targets=self.n_targets, first=self.first + i
        )
        row.begin([int(self.rngs[i].integers(2**31))])
        self.adopt(i, row)

    def close(self) -> None:
        """Close all environments."""
        for env in self.envs:
            env.close()

    def _episodes_that_ended(self, psi: np.ndarray, ends: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
        """Returns ``[T, B, m]`` and lengths ``[T, B]`` where an episode ended, else zeros; summed in 64 bits."""
        total, length = self.episodes
        returns, lengths = np.zeros(psi.shape), np.zeros(psi.shape[:2], np.int64)
        begun = np.zeros(self.n_envs, np.int64)
        for t, i in ends:
            returns[t, i] = total[i] + psi[begun[i] : t + 1, i].sum(axis=0)
            lengths[t, i] = length[i] + t + 1 - begun[i]
            total[i], length[i], begun[i] = 0.0, 0, t + 1
        for i in range(self.n_envs):
            total[i] += psi[begun[i] :, i].sum(axis=0)
            length[i] += len(psi) - begun[i]
        return returns, lengths

    def _failed(
        self, i: int, t: int, last: np.ndarray, error: Exception, lost: dict[int, EpisodeLost] | None
    ) -> tuple[Any, ...]:
        """The step of the stand-in for an environment that lost its episode; any other error is raised, with a note of
        where it arose."""
        if isinstance(error, EpisodeLost) and lost is not None:
            self.lose(i, error, lost)
            return self.envs[i].step(None)
        if not np.isfinite(last).all():
            where = f"environment {self.first + i}, before step {t} of this rollout"
            raise FloatingPointError(f"{where}: the observation is not finite") from error
        error.add_note(f"in environment {self.first + i}, step {t} of this rollout")
        raise error

    def _observation(self, i: int, observed: Any, row: tuple[int, ...]) -> np.ndarray:
        """An observation of another shape, as ``(d,)``."""
        observed = np.asarray(observed)
        if np.size(observed) != row[0]:
            raise ValueError(
                f"observations: got {counted(np.size(observed), 'number')} from environment {self.first + i}, want "
                f"{row[0]}, as many as it gave first"
            )
        return np.reshape(observed, row)

    def _targets(self, i: int, vector: Any) -> np.ndarray:
        """Targets of another shape, as ``(m,)``; NumPy would broadcast a single number over all of them."""
        vector = np.asarray(vector)
        if np.size(vector) != self.n_targets:
            raise ValueError(
                f"info['vector_reward']: got {counted(np.size(vector), 'target')}, want {self.n_targets}, one for each "
                f"column of the influence network; it is environment {self.first + i} that gave them"
            )
        return np.reshape(vector, (self.n_targets,))

    def _reset(self, i: int, seed: int, lost: dict[int, EpisodeLost] | None, after: str = "") -> np.ndarray:
        self.seeds[i] = seed
        try:
            return _flat(self.envs[i].reset(seed=seed)[0])
        except Exception as error:
            if isinstance(error, EpisodeLost) and lost is not None:
                self.lose(i, error, lost)
                return self.envs[i].observed.ravel()
            error.add_note(f"in the reset of environment {self.first + i}{after}")
            raise

    def lose(self, i: int, error: EpisodeLost, lost: dict[int, EpisodeLost]) -> None:
        """Close environment i; a stand-in takes its place until it is replaced."""
        lost[i] = error
        with contextlib.suppress(Exception):  # it is lost anyway
            self.envs[i].close()
        self.envs[i] = _StandIn(np.zeros(self._shape, np.float32), np.zeros(self.n_targets))


class _StandIn:
    """Stands in for a lost environment until the end of the rollout."""

    def __init__(self, observed: np.ndarray, psi: np.ndarray):
        self.observed, self.psi = observed, psi

    def step(self, action: Any) -> Any:
        """Nothing happens."""
        return self.observed, 0.0, False, False, {"vector_reward": self.psi}

    def close(self) -> None:
        """Nothing to close."""


def _note(optional: dict[str, Any], shape: tuple[int, int], t: int, i: int, info: dict[str, Any]) -> None:
    """Store the optional entries of an `info`; the array ``[T, B, ...]`` is made, with defaults, at the first one."""
    for name in _KNOWN & info.keys():
        if info[name] is None:
            continue
        if optional[name] is None:
            optional[name] = np.full((*shape, *np.shape(info[name])), OPTIONAL[name])
        optional[name][t, i] = info[name]


def _flat(obs: Any) -> np.ndarray:
    return np.asarray(obs, np.float32).ravel()


def _check_finite(psi: np.ndarray, obs: np.ndarray, first: int) -> None:
    """Raise at the first non-finite value of the targets or of the observations after them, ``[T, B, ...]``."""
    bad = ~(np.isfinite(psi).all(axis=-1) & np.isfinite(obs).all(axis=-1))
    if bad.any():
        t, i = np.argwhere(bad)[0]
        targets = np.flatnonzero(~np.isfinite(psi[t, i]))
        what = f"target {targets[0]} is {psi[t, i, targets[0]]}" if len(targets) else "the observation is not finite"
        raise FloatingPointError(f"environment {first + i}, step {t} of this rollout: {what}")
