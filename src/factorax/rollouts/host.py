"""Gymnasium environments in a row, stepped by this process."""

import contextlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from ..problems.failures import EpisodeLost
from ..structure import StructureWarning
from .components import Components
from .transitions import OPTIONAL, Running, Transition


class HostEnvironments:
    """B Gymnasium environments in this process; each is reset in the step in which it ends, with a seed of its own.

    They have the numbers `first`, `first` + 1, … in what is said of them.
    """

    def __init__(
        self, factory: Callable[[], gym.Env], n_envs: int, space: Components, n_targets: int, *, first: int = 0
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StructureWarning)  # said when the learner made its first
            self.envs: list[Any] = [factory() for _ in range(n_envs)]
        self.factory, self.n_envs, self.space, self.n_targets, self.first = factory, n_envs, space, n_targets, first
        self._shape = self.envs[0].observation_space.shape or ()
        self.obs: np.ndarray | None = None
        self.episodes = np.zeros((n_envs, n_targets)), np.zeros(n_envs, np.int64)
        self.seeds: list[int] = [0] * n_envs
        """Of the episodes in progress."""
        self.began = np.full(n_envs, -1)
        self.rngs: list[np.random.Generator] = []
        """What the seeds of later episodes are drawn from, for each environment its own."""

    def init(self, seed: int) -> None:
        """Begin the first episodes; environment i is seeded with seed + i."""
        numbers = range(self.first, self.first + self.n_envs)
        self.rngs = [np.random.default_rng([abs(seed), i]) for i in numbers]
        self.begin([seed + i for i in numbers])

    def begin(self, seeds: Sequence[int], lost: dict[int, EpisodeLost] | None = None) -> None:
        """Begin an episode in every environment, each with its seed."""
        self.obs = np.stack([self._reset(i, s, lost) for i, s in enumerate(seeds)])

    def collect(
        self, act: Callable[[np.ndarray], np.ndarray], n_steps: int, lost: dict[int, EpisodeLost] | None = None
    ) -> Transition:
        """`n_steps` transitions of all environments, ``[T, B, ...]``. What an environment raises, names it.

        An environment that loses its episode is closed, and put down in `lost` if that is given; what stands in for it
        gives noughts, and the caller must replace them and it (see `adopt`).
        """
        assert self.obs is not None
        now, shape = self.obs, (n_steps, self.n_envs)
        obs, next_obs = (np.empty((*shape, now.shape[1]), np.float32) for _ in range(2))
        psi, actions = np.empty((*shape, self.n_targets)), np.empty((*shape, len(self.space)), np.float32)
        terminated, truncated, ends = [], [], []
        optional: dict[str, list[Any]] = {name: [None] * n_steps for name in OPTIONAL}
        for t in range(n_steps):
            obs[t] = now
            actions[t] = chosen = act(now)
            seen, rewards, ended, cut, infos = self._step(self.space.to_environments(chosen), t, lost)
            _put_targets(psi[t], rewards, infos, self.first)
            _put_observations(next_obs[t], seen)
            now = self.obs = next_obs[t]
            terminated.append(ended)
            truncated.append(cut)
            if not all(map(OPTIONAL.keys().isdisjoint, infos)):
                for name, default in OPTIONAL.items():
                    optional[name][t] = _filled([info.get(name) for info in infos], default)
            if any(ended) or any(cut):
                now = self.obs = now.copy()
                for i in np.flatnonzero(np.logical_or(ended, cut)):
                    ends.append((t, i))
                    seed = int(self.rngs[i].integers(2**31))
                    now[i] = self._reset(int(i), seed, lost, f" after step {t} of this rollout")
        self.obs = now.copy()  # the learner may do with its transitions what it likes
        _check_finite(psi, next_obs, self.first)
        self.began[:] = -1
        for t, i in ends:
            self.began[i] = t + 1
        return Transition(
            obs,
            actions,
            psi.astype(np.float32),
            next_obs,
            np.array(terminated, bool),
            np.array(truncated, bool),
            _filled(optional["factor_mask"], True),
            _filled(optional["target_terminated"], False),
            *self._episodes_that_ended(psi, ends),
        )

    @property
    def running(self) -> Running:
        """The episodes in progress after a rollout."""
        assert self.obs is not None
        return Running(np.array(self.seeds, np.int64), self.began.copy(), self.obs.copy())

    def adopt(self, i: int, other: "HostEnvironments") -> None:
        """In place of environment i the only one of another row, with all that is known of it."""
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

    def begin_anew(self, i: int) -> None:
        """An environment in place of one that was lost, at the start of an episode."""
        row = HostEnvironments(self.factory, 1, self.space, self.n_targets, first=self.first + i)
        row.begin([int(self.rngs[i].integers(2**31))])
        self.adopt(i, row)

    def close(self) -> None:
        """Close all environments."""
        for env in self.envs:
            env.close()

    def _episodes_that_ended(self, psi: np.ndarray, ends: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
        """Returns ``[T, B, m]`` and lengths ``[T, B]`` where an episode ended, else noughts; sums of 64 bits."""
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

    def _step(self, actions: Any, t: int, lost: dict[int, EpisodeLost] | None) -> Any:
        """Step every environment once: five lists of what they gave."""
        given, to_come = [], iter(actions)
        while len(given) < self.n_envs:
            try:
                for env, action in zip(self.envs[len(given) :], to_come, strict=True):
                    given.append(env.step(action))
            except Exception as error:
                i = len(given)
                if isinstance(error, EpisodeLost) and lost is not None:
                    self.lose(i, error, lost)
                    given.append(self.envs[i].step(None))
                    continue
                name = self.first + i
                if self.obs is not None and not np.isfinite(self.obs[i]).all():
                    before = f"environment {name}, before step {t} of this rollout: the observation is not finite"
                    raise FloatingPointError(before) from error
                error.add_note(f"in environment {name}, step {t} of this rollout")
                raise
        return zip(*given, strict=True)

    def _reset(self, i: int, seed: int, lost: dict[int, EpisodeLost] | None, after: str = "") -> np.ndarray:
        self.seeds[i] = seed
        try:
            return _flat(self.envs[i].reset(seed=seed)[0])
        except Exception as error:
            if isinstance(error, EpisodeLost) and lost is not None:
                self.lose(i, error, lost)
                return self.envs[i].seen.ravel()
            error.add_note(f"in the reset of environment {self.first + i}{after}")
            raise

    def lose(self, i: int, error: EpisodeLost, lost: dict[int, EpisodeLost]) -> None:
        """Close environment i and let something stand in for it until it is replaced."""
        lost[i] = error
        with contextlib.suppress(Exception):  # it is lost anyway
            self.envs[i].close()
        self.envs[i] = _StandIn(np.zeros(self._shape, np.float32), np.zeros(self.n_targets))


class _StandIn:
    """For an environment that is lost, until the end of the rollout."""

    def __init__(self, seen: np.ndarray, psi: np.ndarray):
        self.seen, self.psi = seen, psi

    def step(self, action: Any) -> Any:
        """Nothing happens."""
        return self.seen, 0.0, False, False, {"vector_reward": self.psi}

    def close(self) -> None:
        """Nothing to close."""


def _filled(given: list[Any], default: bool) -> np.ndarray | None:
    """``(B, ...)`` of what some environments gave; None if none did."""
    one = next((x for x in given if x is not None), None)
    if one is None:
        return None
    missing = np.full(np.shape(one), default)
    return np.array([missing if x is None else x for x in given], bool)


def _flat(obs: Any) -> np.ndarray:
    return np.asarray(obs, np.float32).ravel()


def _put_observations(rows: np.ndarray, seen: Sequence[Any]) -> None:
    """Copy observations to ``(B, d)``: there are environments that change what they returned."""
    if len(seen) == 1 and np.shape(seen[0]) == rows.shape[1:]:  # far faster than to make an array of a list
        rows[0] = seen[0]
        return
    sizes = [np.size(obs) for obs in seen]
    if set(sizes) != {rows.shape[1]}:
        want = rows.shape[1]
        raise ValueError(f"observations: got {sizes} numbers from the environments, want {want} from each of them")
    rows[:] = np.array(seen, np.float32).reshape(rows.shape)


def _check_finite(psi: np.ndarray, obs: np.ndarray, first: int) -> None:
    """Raise at the first number that is none, of the targets or the observations ``[T, B, ...]`` after them."""
    bad = ~(np.isfinite(psi).all(axis=-1) & np.isfinite(obs).all(axis=-1))
    if bad.any():
        t, i = np.argwhere(bad)[0]
        targets = np.flatnonzero(~np.isfinite(psi[t, i]))
        what = f"target {targets[0]} is {psi[t, i, targets[0]]}" if len(targets) else "the observation is not finite"
        raise FloatingPointError(f"environment {first + i}, step {t} of this rollout: {what}")


def _put_targets(psi: np.ndarray, rewards: Sequence[Any], infos: Sequence[dict[str, Any]], first: int) -> None:
    """Copy the vectors of targets of a step to ``(B, m)``."""
    m = psi.shape[1]
    if len(infos) == 1:
        one = infos[0].get("vector_reward", rewards[0])
        if np.shape(one) == (m,):
            psi[0] = one
            return
    given: Any = [info.get("vector_reward", reward) for info, reward in zip(infos, rewards, strict=True)]
    try:
        if m == 1 and np.ndim(given[0]) == 0:
            psi[:, 0] = given
            return
        for row, one in zip(psi, given, strict=True):
            # What is of another shape is perhaps a mistake, which NumPy would spread over all targets.
            row[:] = one if np.shape(one) == (m,) else np.reshape(one, (m,))
    except ValueError:
        i = next((i for i, one in enumerate(given) if np.size(one) != m), 0)
        raise ValueError(
            f"info['vector_reward']: got {np.size(given[i])} targets, want {m}, one for each column of the influence "
            f"network; it is environment {first + i} that gave them"
        ) from None
