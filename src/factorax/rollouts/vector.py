"""One Gymnasium vector environment, read so that the end of an episode means the same in every autoreset mode."""

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
from .returned import Misfit, check_reset, check_spaces, check_step, name_of
from .returned_rows import entry, flags, last_observations, masks, observations, targets, with_final
from .transitions import OPTIONAL


class Rows(NamedTuple):
    """What one call of `step` gave, with a row for each of n environments."""

    next_obs: np.ndarray
    """Observations after the step, ``(n, d)``: the last ones of episodes that ended."""
    psi: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    optional: dict[str, tuple[np.ndarray, np.ndarray]]
    """Masks of `info` by name, and which rows of them are there."""
    first: np.ndarray | None
    """Observations of which the rows of ended episodes are the first of the next ones, ``(n, d)``; None if they are yet
    to be reset."""
    resets: np.ndarray | None
    """Which rows are no transitions, since the call only reset their environments, ``(n,)``; None if all are."""


class Vector:
    """A vector environment and what it is known to do.

    If its environments can be reset with a seed each (`seeded`), those that end are reset with seeds of ours, in all
    modes. Otherwise the vector resets them in its own way:

    - SAME_STEP: in the step in which they end, with the last observation in ``info["final_obs"]``;
    - NEXT_STEP: in the next call of `step`, which is then no transition of theirs (`Rows.resets`);
    - DISABLED: when they are told to, without a seed.
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
        self.time = 0
        """Calls of `step` so far."""
        self._actions = _batches(env.single_action_space, env.action_space, self.n)
        self._ended = np.zeros(self.n, bool)
        self.skips = self.mode is AutoresetMode.NEXT_STEP and not self.seeded
        """Whether calls of `step` reset environments, and are no transitions of theirs."""

    @property
    def name(self) -> str:
        """Its name, for messages."""
        return name_of(self.env)

    def begin(self, seeds: Sequence[int]) -> np.ndarray:
        """Reset all environments; returns their observations ``(n, d)``. Without seeds of their own, all depend on the
        first seed."""
        self._ended[:] = False
        with _noticing_death(self.env):
            return self._first(self.env.reset(seed=[int(s) for s in seeds] if self.seeded else int(seeds[0])))

    def reset(self, ended: np.ndarray, seeds: Sequence[int]) -> np.ndarray:
        """Reset the environments that are marked, ``(n,)``; the other rows of what is returned mean nothing."""
        self._ended = self._ended & ~ended
        seed: Any = [int(s) for s in seeds] if self.seeded else None
        # Gymnasium takes the mask out of the options, so they are new every time.
        with _noticing_death(self.env):
            return self._first(self.env.reset(seed=seed, options={"reset_mask": ended.copy()}), ended)

    def _first(self, returned: Any, ended: np.ndarray | None = None) -> np.ndarray:
        check_reset(returned)
        rows = observations(returned[0], self.n, self.observations).astype(np.float32)
        if not np.isfinite(rows if ended is None else rows[ended]).all():
            raise Misfit("observations: got numbers that are not finite from reset, want finite ones")
        return rows

    def step(self, flat: np.ndarray) -> Rows:
        """Act in all environments, with flat actions ``(n, c)``."""
        self.time += 1
        with _noticing_death(self.env):
            returned = self.env.step(self._actions(self.space.to_environments(flat)))
        return self.read(returned)

    def read(self, returned: Any) -> Rows:
        """Return what a step of the vector means; raises `Misfit` for what cannot be used."""
        if type(returned) is not tuple or len(returned) != 5 or not isinstance(returned[4], dict):
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
        optional = {name: found for name in OPTIONAL if (found := self._mask(of_step, name)) is not None}
        self._ended, first = over, None
        if self.mode is AutoresetMode.SAME_STEP and over.any():
            ended = np.flatnonzero(over)
            first, obs = (None if self.seeded else obs.astype(np.float32)), obs.astype(np.float32)
            obs[ended] = last_observations(info, ended, self.observations)
        return Rows(obs, psi, terminated, truncated, optional=optional, first=first, resets=resets)

    def _mask(self, info: dict[str, Any], name: str) -> tuple[np.ndarray, np.ndarray] | None:
        found = entry(info, name, self.n)
        if found is None:
            return None
        width = self.n_factors if name == "factor_mask" else self.n_targets
        return masks(name, found[0], self.n, width), found[1]

    def _targets(self, reward: Any, info: dict[str, Any], resets: np.ndarray | None) -> np.ndarray:
        n, m = self.n, self.n_targets
        if resets is not None and resets.all():  # there is nothing to read
            return np.zeros((n, m))
        found = entry(info, "vector_reward", n)
        if found is None:
            return _without(targets(reward, n, m), resets)
        rows, there = found
        if resets is not None:
            there = there | resets
        if not there.all():
            i = int(np.flatnonzero(~there)[0])
            raise Misfit(
                f"info['vector_reward']: is missing for environment {i}, want a row of {m} in every step; in "
                "AutoresetMode.SAME_STEP that of an episode's last step is in info['final_info']"
            )
        return _without(targets(rows, n, m), resets)

    def close(self) -> None:
        """Close all environments."""
        self.env.close()

    def abandon(self) -> None:
        """Close what can be closed of a vector that has failed."""
        inner = self.env.unwrapped
        with contextlib.suppress(Exception):  # it is lost anyway
            if isinstance(inner, AsyncVectorEnv):
                for process in inner.processes:  # to close it would mean to wait for the one that has ended
                    process.kill()
                inner.closed = True
            else:
                self.env.close()


@contextlib.contextmanager
def _noticing_death(env: VectorEnv) -> Iterator[None]:
    """Raise `EpisodeLost` if a process of an `AsyncVectorEnv` has ended: others can be started."""
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
    """Raise ValueError unless `n_envs` environments are whole vectors of so many."""
    if n_envs % together:
        more = together * max(2, -(-n_envs // together))
        raise ValueError(
            f"n_envs: got {n_envs}, and the problem is a vector environment with num_envs = {together}; want "
            f"n_envs={together}, or leave it out, or a multiple such as {more} for several vectors side by side"
        )
