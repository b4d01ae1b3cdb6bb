"""Gymnasium environments that are stepped one after another in this process."""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from .._text import warn
from ..observations import ObservationSpace
from ..problems.failures import EpisodeLost
from ..problems.vectors import create
from ..spaces import ActionSpace
from ..structure import StructureWarning
from .environments import Environments
from .returned import (
    Misfit,
    check_spaces,
    check_step,
    first_observation,
    flag,
    ignores_mask,
    mask,
    name_of,
    observation,
    targets,
)
from .transitions import OPTIONAL, Transition, before, first_not_finite, sum_episodes

_KNOWN = OPTIONAL.keys()
_NOTHING = object()


class HostEnvironments(Environments):
    """B Gymnasium environments in this process; each is reset in the step in which it ends, with its own seed.

    In messages they are numbered `first`, `first` + 1, …. Return values are checked, and errors name the environment,
    its episode and the step.
    """

    together = calls_per_step = 1
    """Number of environments replaced together, and maximum number of actions per step."""
    calls = None

    def __init__(self, factory: Callable[[], gym.Env], n_envs: int, space: ActionSpace, n_targets: int, **options: Any):
        super().__init__(factory, n_envs, space, n_targets, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StructureWarning)  # already shown when the first environment was created
            self.envs: list[Any] = [create(factory) for _ in range(n_envs)]
        self._action_space = getattr(self.envs[0], "action_space", None)
        for i, env in enumerate(self.envs):
            with self._naming(i):
                check_spaces(env, self._action_space)
        self._observations = ObservationSpace.of(self.envs[0].observation_space)
        self._size = self._observations.size
        self._dtypes: tuple[np.dtype | None, np.dtype | None] = None, None  # last dtypes seen that are real numbers

    def begin(self, seeds: Sequence[int], lost: dict[int, EpisodeLost] | None = None) -> None:
        """Start an episode in each environment with its seed."""
        self.obs = np.stack([self._reset(i, s, lost) for i, s in enumerate(seeds)])

    def begin_again(self, lost: dict[int, EpisodeLost] | None = None) -> str:
        """Start the episode of the first environment again, with the same seed; return its name."""
        name = name_of(self.envs[0])
        self.obs[0] = self._reset(0, self.seeds[0], lost)
        return name

    def collect(
        self, act: Callable[[np.ndarray], np.ndarray], n_steps: int, lost: dict[int, EpisodeLost] | None = None
    ) -> Transition:
        """Return `n_steps` transitions of all environments, ``[T, B, ...]``. Errors name the environment that raised
        them.

        An environment that loses its episode is closed and added to `lost` if given. A stand-in returns zeros for it,
        and the caller must replace both (see `adopt`).
        """
        now = first = self.obs
        shape, envs, to_environments = (n_steps, self.n_envs), self.envs, self.space.to_environments
        row, vector_shape, is_scalar = now.shape[1:], (self.n_targets,), self.n_targets == 1
        next_obs = np.empty((*shape, *row), np.float32)
        psi, actions = np.empty((*shape, *vector_shape)), np.empty((*shape, len(self.space)), np.float32)
        terminated, truncated = np.zeros(shape, bool), np.zeros(shape, bool)
        optional: dict[str, Any] = dict.fromkeys(OPTIONAL)
        ends: list[tuple[int, int]] = []
        begun: list[tuple[int, int, np.ndarray]] = []
        restart = getattr(act, "restart", None)  # recurrent policies have it
        array, no = np.ndarray, np.False_  # NumPy has one False and one object per dtype, so `is` works and is fastest
        obs_dtype, vector_dtype = self._dtypes
        # A simulator evicts this loop from the CPU caches: each call in it costs as much as its first call.
        for t, (raw, following, parts) in enumerate(zip(actions, next_obs, psi, strict=True)):
            raw[...] = chosen = act(now)
            last, now, ended_before = now, following, len(ends)
            # Indexed, because an iteration over an array ends with an IndexError, which took 5 µs here.
            elements = to_environments(chosen)
            for i, env in enumerate(envs):
                returned = _NOTHING
                try:
                    returned = env.step(elements[i])
                    observed, reward, ended, cut, info = returned
                    vector = info.get("vector_reward", reward)
                    # Copied at once: some environments modify the arrays that they returned.
                    if type(observed) is array and observed.dtype is obs_dtype and observed.shape == row:
                        now[i] = observed
                    else:
                        now[i] = numbers = observation(observed, self._observations)
                        obs_dtype = numbers.dtype
                    is_usual = type(vector) is array and vector.dtype is vector_dtype and vector.shape == vector_shape
                    if is_usual or (is_scalar and type(vector) is float):
                        parts[i] = vector
                    else:
                        parts[i] = numbers = targets(vector, self.n_targets)
                        vector_dtype = numbers.dtype
                    if (ended is not False and ended is not no) or (cut is not False and cut is not no):
                        terminated[t, i], truncated[t, i] = flag("terminated", ended), flag("truncated", cut)
                        if terminated[t, i] or truncated[t, i]:
                            ends.append((t, i))
                    if not _KNOWN.isdisjoint(info):
                        self._note(optional, shape, t, i, info)
                except Exception as error:
                    self._failed(i, last[i], error, returned, lost, self.where(i, t, ends))
                    now[i], parts[i] = 0.0, 0.0
            if len(ends) > ended_before:
                now = now.copy()
                for t, i in ends[ended_before:]:
                    seed = int(self.rngs[i].integers(2**31))
                    now[i] = self._reset(i, seed, lost)
                    begun.append((t, i, now[i]))
                    if restart is not None:
                        restart(i)
            self.obs = now
        self._dtypes = obs_dtype, vector_dtype
        obs = before(first, next_obs, begun)
        self.obs = now.copy()  # the caller owns the transitions and may modify them
        if bad := first_not_finite(psi, next_obs):
            t, i, what = bad
            raise FloatingPointError(f"{self.where(i, t, ends)}: {what}")
        self.began[:] = -1
        for t, i in ends:
            self.began[i] = t + 1
        returns, lengths = sum_episodes(psi, np.ones(shape, bool), ends, self.episodes, n_steps)
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

    @property
    def local(self) -> Any:
        """The function `local` of the environments, which returns local observations; None if there is none."""
        return self.envs[0].unwrapped.local

    def adopt(self, i: int, other: Any) -> None:
        """Replace environment i by the only one of `other`, with its episode."""
        super().adopt(i, other)
        self.envs[i] = other.envs[0]

    def close(self) -> None:
        """Close all environments."""
        for env in self.envs:
            env.close()

    def where(self, i: int, t: int | None = None, ends: Sequence[tuple[int, int]] = ()) -> str:
        """Return the environment, and the step of its episode if t is a step of the rollout, for messages."""
        name = f"environment {self.first + i} ({name_of(self.envs[i])})"
        if t is None:
            return name
        begun = max((end + 1 for end, which in ends if which == i and end < t), default=-int(self.episodes[1][i]))
        return f"{name}, step {t + 1 - begun} of its episode with seed {self.seeds[i]}"

    @contextlib.contextmanager
    def _naming(self, i: int, when: str = "") -> Iterator[None]:
        """Add the environment to an error about its return values or spaces."""
        try:
            yield
        except Misfit as error:
            raise ValueError(f"{self.where(i)}{when}: {error}") from None

    def _failed(
        self,
        i: int,
        last: np.ndarray,
        error: Exception,
        returned: Any,
        lost: dict[int, EpisodeLost] | None,
        where: str,
    ) -> None:
        """Replace an environment that lost its episode by a stand-in; raise any other error with its location."""
        if isinstance(error, EpisodeLost) and lost is not None:
            self.lose(i, error, lost)
            return
        if isinstance(error, Misfit):
            raise ValueError(f"{where}: {error}") from None
        if returned is _NOTHING:  # the error was raised by the environment itself
            if not np.isfinite(last).all():
                raise FloatingPointError(f"{where}: the previous observation is not finite") from error
            error.add_note(f"in {where}")
            raise error
        try:
            check_step(returned)
        except Misfit as misfit:
            raise ValueError(f"{where}: {misfit}") from None
        raise ValueError(f"{where}: step returned values that cannot be used ({error})") from error

    def _note(self, optional: dict[str, Any], shape: tuple[int, int], t: int, i: int, info: dict[str, Any]) -> None:
        """Store the optional entries of an `info`; the first one creates the array ``[T, B, ...]`` with defaults."""
        for name in _KNOWN:
            value = info.get(name)
            if value is None:
                continue
            array = optional[name]
            size = array.shape[2] if array is not None else self.n_factors if name == "factor_mask" else self.n_targets
            if type(value) is not np.ndarray or value.dtype.char != "?" or value.shape != (size,):
                value = mask(name, value, size)
            if array is None:
                optional[name] = array = np.full((*shape, len(value)), OPTIONAL[name])
            array[t, i] = value

    def _reset(self, i: int, seed: int, lost: dict[int, EpisodeLost] | None) -> np.ndarray:
        self.seeds[i] = seed
        try:
            returned = self.envs[i].reset(seed=seed)
        except Exception as error:
            if isinstance(error, EpisodeLost) and lost is not None:
                self.lose(i, error, lost)
                return self.envs[i].observed.ravel()
            error.add_note(f"in the reset of {self.where(i)} with seed {seed}")
            raise
        with self._naming(i, f", reset with seed {seed}"):
            check_spaces(self.envs[i], self._action_space)
            observed = first_observation(returned, self._observations)
        if self.first + i == 0 and ignores_mask(returned[1], self.envs[0].unwrapped, self._observations):
            warn(
                "info['action_mask']: is ignored, so the policy may choose invalid actions; "
                "fx.wrap(make, network, observe=['action_mask']) makes it part of the observation"
            )
        return observed

    def lose(self, i: int, error: EpisodeLost, lost: dict[int, EpisodeLost]) -> None:
        """Close environment i; a stand-in takes its place until it is replaced."""
        lost[i] = error
        with contextlib.suppress(Exception):  # it is lost in any case
            self.envs[i].close()
        self.envs[i] = _StandIn(np.zeros(self._size, np.float32), np.zeros(self.n_targets))


class _StandIn:
    """Replaces a lost environment until the end of the rollout."""

    def __init__(self, observed: np.ndarray, psi: np.ndarray):
        self.observed, self.psi = observed, psi

    def step(self, action: Any) -> Any:
        """Return the last observation and zeros."""
        return self.observed, 0.0, False, False, {"vector_reward": self.psi}

    def close(self) -> None:
        """Do nothing."""
