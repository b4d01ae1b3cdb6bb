"""A Gymnasium vector environment with a uniform treatment of ended episodes in all autoreset modes."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array

from ..observations import ObservationSpace
from ..problems.failures import EpisodeLost
from ..problems.vectors import OneOfMany, autoreset_mode, takes_seeds
from ..spaces import ActionSpace
from .returned import (
    Misfit,
    check_reset,
    check_spaces,
    check_step,
    entry,
    flags,
    ignores_mask,
    last_observations,
    mask,
    name_of,
    observations,
    target_rows,
    with_final,
)
from .transitions import OPTIONAL


class Rows(NamedTuple):
    """The result of one call of `step`, with one row for each of n environments."""

    next_obs: np.ndarray
    """Observations after the step, ``(n, d)``; for ended episodes, the last observation."""
    psi: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    optional: dict[str, tuple[np.ndarray, np.ndarray]]
    """Masks of `info` by name, and which of their rows are set."""
    first: np.ndarray | None
    """Observations ``(n, d)`` in which ended episodes have the first observation of the next one; None if they are yet
    to be reset."""
    resets: np.ndarray | None
    """Which rows are not transitions, because the call only reset their environments, ``(n,)``; None if all are."""


class Vector:
    """A vector environment and its known properties.

    If its environments can be reset with individual seeds (`seeded`), ended ones are reset with our seeds in all modes.
    Otherwise the vector resets them in its own way:

    - SAME_STEP: in the step in which they end, with the last observation in ``info["final_obs"]``;
    - NEXT_STEP: in the next call of `step`, which is not a transition of theirs (`Rows.resets`);
    - DISABLED: on request, without a seed.
    """

    def __init__(self, env: VectorEnv, space: ActionSpace, n_targets: int, n_factors: int | None, like: Any = None):
        self.one = OneOfMany(env)
        check_spaces(self.one, self.one.action_space if like is None else like)
        self.env: Any = env
        self.n, self.space = env.num_envs, space
        self.mode, self.seeded = autoreset_mode(env), takes_seeds(env)
        self.n_targets, self.n_factors = n_targets, n_factors
        self.observations = ObservationSpace.of(env.single_observation_space)
        self.size = self.observations.size
        self.ignores_mask = False
        """Whether the first `info` has a mask of valid actions that is not part of the observations."""
        self.time = 0
        """Number of calls of `step` so far."""
        self._actions = _batches(env.single_action_space, env.action_space, self.n)
        self._ended = np.zeros(self.n, bool)
        self.skips = self.mode is AutoresetMode.NEXT_STEP and not self.seeded
        """Whether some calls of `step` only reset environments and are not transitions."""

    @property
    def name(self) -> str:
        """Its name, for messages."""
        return name_of(self.env)

    def begin(self, seeds: Sequence[int]) -> np.ndarray:
        """Reset all environments and return their observations ``(n, d)``.

        If environments have no individual seeds, all depend on the first seed.
        """
        self._ended[:] = False
        with _noticing_death(self.env):
            returned = self.env.reset(seed=[int(s) for s in seeds] if self.seeded else int(seeds[0]))
        rows = self._first(returned)
        self.ignores_mask = ignores_mask(returned[1], self.one.unwrapped, self.observations)
        return rows

    def reset(self, ended: np.ndarray, seeds: Sequence[int]) -> np.ndarray:
        """Reset the marked environments ``(n,)``; the other rows of the result are meaningless."""
        self._ended = self._ended & ~ended
        seed: Any = [int(s) for s in seeds] if self.seeded else None
        # Gymnasium removes the mask from the options, so new options are passed each time.
        with _noticing_death(self.env):
            return self._first(self.env.reset(seed=seed, options={"reset_mask": ended.copy()}), ended)

    def _first(self, returned: Any, ended: np.ndarray | None = None) -> np.ndarray:
        check_reset(returned)
        rows = observations(returned[0], self.n, self.observations).astype(np.float32)
        if not np.isfinite(rows if ended is None else rows[ended]).all():
            raise Misfit("observations: got non-finite numbers from reset, want finite numbers")
        return rows

    def step(self, flat: np.ndarray) -> Rows:
        """Act in all environments, with flat actions ``(n, c)``."""
        self.time += 1
        with _noticing_death(self.env):
            returned = self.env.step(self._actions(self.space.to_environments(flat)))
        return self.read(returned)

    def read(self, returned: Any) -> Rows:
        """Return the interpreted result of a step; raise `Misfit` if it cannot be used."""
        check_step(returned)
        observed, reward, terminated, truncated, info = returned
        n = self.n
        obs = observations(observed, n, self.observations)
        terminated, truncated = flags("terminated", terminated, n), flags("truncated", truncated, n)
        over = terminated | truncated
        resets = self._ended.copy() if self.skips and self._ended.any() else None
        if resets is not None:
            terminated, truncated, over = terminated & ~resets, truncated & ~resets, over & ~resets
        of_step = with_final(info, n)
        psi = self._targets(reward, of_step, resets)
        optional = {name: value for name in OPTIONAL if (value := self._mask(of_step, name)) is not None}
        self._ended, first = over, None
        if self.mode is AutoresetMode.SAME_STEP and over.any():
            ended = np.flatnonzero(over)
            first, obs = (None if self.seeded else obs.astype(np.float32)), obs.astype(np.float32)
            obs[ended] = last_observations(info, ended, self.observations)
        return Rows(obs, psi, terminated, truncated, optional=optional, first=first, resets=resets)

    def _mask(self, info: dict[str, Any], name: str) -> tuple[np.ndarray, np.ndarray] | None:
        value = entry(info, name, self.n)
        if value is None:
            return None
        width = self.n_factors if name == "factor_mask" else self.n_targets
        return mask(name, value[0], self.n, width), value[1]

    def _targets(self, reward: Any, info: dict[str, Any], resets: np.ndarray | None) -> np.ndarray:
        n, m = self.n, self.n_targets
        if resets is not None and resets.all():  # there is no transition
            return np.zeros((n, m))
        value = entry(info, "vector_reward", n)
        if value is None:
            return _without(target_rows(reward, n, m), resets)
        rows, there = value
        if resets is not None:
            there = there | resets
        if not there.all():
            i = int(np.flatnonzero(~there)[0])
            raise Misfit(
                f"info['vector_reward']: is missing for environment {i}, want a row of {m} in each step; in "
                "AutoresetMode.SAME_STEP that of an episode's last step is in info['final_info']"
            )
        return _without(target_rows(rows, n, m), resets)

    def close(self) -> None:
        """Close all environments."""
        self.env.close()

    def abandon(self) -> None:
        """Close as much as possible of a vector that has failed."""
        inner = self.env.unwrapped
        with contextlib.suppress(Exception):  # it is lost in any case
            if isinstance(inner, AsyncVectorEnv):
                for process in inner.processes:  # closing it would wait for the process that has ended
                    process.kill()
                inner.closed = True
            else:
                self.env.close()


@contextlib.contextmanager
def _noticing_death(env: VectorEnv) -> Iterator[None]:
    """Raise `EpisodeLost` if a process of an `AsyncVectorEnv` has ended, since others can be started."""
    try:
        yield
    except (EOFError, ConnectionError) as error:
        if not isinstance(env.unwrapped, AsyncVectorEnv):
            raise
        dead = [i for i, process in enumerate(env.unwrapped.processes) if not process.is_alive()]
        raise EpisodeLost(f"the process of its environment {', '.join(map(str, dead))} has ended") from error


def _without(psi: np.ndarray, resets: np.ndarray | None) -> np.ndarray:
    return psi if resets is None else np.where(resets[:, None], 0.0, psi)


def _batches(single: gym.Space, batched: gym.Space, n: int) -> Callable[[Any], Any]:
    """Return a function from the actions of n environments to an element of the batched action space."""
    if isinstance(single, gym.spaces.Dict | gym.spaces.Tuple):
        return lambda actions: concatenate(single, list(actions), create_empty_array(single, n))
    dtype = batched.dtype if isinstance(batched, gym.Space) else None
    return lambda actions: np.asarray(actions, dtype)


def check_multiple(n_envs: int, together: int) -> None:
    """Raise ValueError unless `n_envs` is a multiple of the size of a vector."""
    if n_envs % together:
        more = together * max(2, -(-n_envs // together))
        raise ValueError(
            f"n_envs: got {n_envs}, but the problem is a vector environment with num_envs = {together}; want "
            f"n_envs={together} (the default), or a multiple such as {more} for several vectors"
        )
