"""Environments on the host, stepped in this process: one pipeline for single ones, vectors and batched simulators.

Whatever a factory creates is a batch of n environments: a Gymnasium environment is a `Single` (n = 1), a vector
environment a `Vector`. `Environments` steps as many of them as a rollout needs. A call of `step` gives one transition
per environment, with one exception: a vector that resets its environments in the call after their end (`Vector.skips`)
gives none for those. It is called until each of its environments has made all transitions of the rollout. Extra
transitions of the other environments are not used for learning, but count in the returns and lengths of their episodes.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array

from .._text import counted, warn
from ..observations import ObservationSpace
from ..problems.failures import EpisodeLost
from ..problems.vectors import OneOfMany, autoreset_mode, create, is_vector, takes_seeds
from ..spaces import ActionSpace
from ..structure import StructureWarning
from .episodes import Episode
from .step_checks import (
    Misfit,
    check_spaces,
    check_step,
    checked_reset,
    entry,
    first_observation,
    flag,
    flags,
    ignores_mask,
    last_observations,
    mask,
    name_of,
    observation,
    observations,
    target_rows,
    targets,
    with_final,
)
from .transitions import OPTIONAL, RunningEpisodes, Transition, before, sum_episodes

Flags = tuple[Any, Any] | None
"""Whether episodes were terminated and truncated, both ``(n,)``; None if no episode ended."""


class Single:
    """A Gymnasium environment as a batch of one."""

    n, skips, seeded = 1, False, True
    first = resets = None

    def __init__(self, env: gym.Env, space: ActionSpace, n_targets: int, n_factors: int | None, like: Any = None):
        self.env: Any = env
        self.name = name_of(env)
        self.one: Any = env
        """The environment that describes the others: its spaces, and attributes such as `local`."""
        self.action_space = getattr(env, "action_space", None) if like is None else like
        check_spaces(env, self.action_space)
        self.space, self.n_targets, self.n_factors = space, n_targets, n_factors
        self.observations = ObservationSpace.of(env.observation_space)
        self.info: Any = {}
        """The `info` of the last reset."""
        self._shape, self._target_shape = (self.observations.size,), (n_targets,)
        # The last types that were real numbers: arrays of these types need no check.
        self._obs_dtype: np.dtype | None = None
        self._target_dtype: np.dtype | None = None

    def reset(self, seeds: Sequence[int], marked: np.ndarray | None = None) -> np.ndarray:
        """Start an episode with its seed and return its first observation ``(1, d)``."""
        observed, self.info = checked_reset(self.env, seed=int(seeds[0]))
        check_spaces(self.env, self.action_space)
        return first_observation(observed, self.observations)[None]

    def step(self, i: int, elements: Any, next_obs: np.ndarray, psi: np.ndarray) -> tuple[Flags, dict[str, Any]]:
        """Act with element i; write the observation and the targets to row i of arrays ``(B, d)`` and ``(B, m)``."""
        # A simulator evicts this code from the CPU caches: each call in it costs as much as its first call.
        returned = self.env.step(elements[i])
        try:
            observed, reward, terminated, truncated, info = returned
            vector = info.get("vector_reward", reward)
            # Copied at once: some environments modify the arrays that they returned.
            if type(observed) is np.ndarray and observed.dtype is self._obs_dtype and observed.shape == self._shape:
                next_obs[i] = observed
            else:
                next_obs[i] = numbers = observation(observed, self.observations)
                self._obs_dtype = numbers.dtype
            if (
                type(vector) is np.ndarray and vector.dtype is self._target_dtype and vector.shape == self._target_shape
            ) or (type(vector) is float and self.n_targets == 1):
                psi[i] = vector
            else:
                psi[i] = numbers = targets(vector, self.n_targets)
                self._target_dtype = numbers.dtype
            # NumPy has one False, so `is` works and is fastest.
            if (terminated is False or terminated is np.False_) and (truncated is False or truncated is np.False_):
                return None, info
            ends = flag("terminated", terminated), flag("truncated", truncated)
            return (ends if any(ends) else None), info
        except Misfit:
            raise
        except Exception as error:
            check_step(returned)
            raise Misfit(f"step: returned values that cannot be used ({error})") from error

    def mask(self, name: str, info: dict[str, Any]) -> np.ndarray:
        """Return a mask of `info` ``(size,)``."""
        size = self.n_factors if name == "factor_mask" else self.n_targets
        value = info[name]
        if type(value) is np.ndarray and value.dtype.char == "?" and value.shape == (size,):
            return value
        return mask(name, value, size)

    def abandon(self) -> None:
        """Close as much as possible of an environment that has failed."""
        env, self.env = self.env, None
        with contextlib.suppress(Exception):
            env.close()

    def close(self) -> None:
        """Close the environment, unless it was abandoned."""
        if self.env is not None:
            self.env.close()


class Vector(Single):
    """A vector environment with a uniform treatment of ended episodes in all autoreset modes.

    If its environments can be reset with individual seeds (`seeded`), ended ones are reset with our seeds in all modes.
    Otherwise the vector resets them in its own way:

    - SAME_STEP: in the step in which they end, with the last observation in ``info["final_obs"]``;
    - NEXT_STEP: in the next call of `step`, which is not a transition of theirs (`resets`);
    - DISABLED: on request, without a seed.
    """

    def __init__(self, env: VectorEnv, space: ActionSpace, n_targets: int, n_factors: int | None, like: Any = None):
        one: Any = OneOfMany(env)
        super().__init__(one, space, n_targets, n_factors, like)
        self.env, self.one, self.name = env, one, name_of(env)
        self.n: int = env.num_envs
        self.mode, self.seeded = autoreset_mode(env), takes_seeds(env)
        self.skips = self.mode is AutoresetMode.NEXT_STEP and not self.seeded
        """Whether some calls of `step` only reset environments and are not transitions."""
        self.time = 0
        """Number of calls of `step` so far."""
        self.first: np.ndarray | None = None
        """Observations ``(n, d)`` in which episodes that the last call ended have the first observation of the next
        one; None if they are yet to be reset."""
        self.resets: np.ndarray | None = None
        """Which rows of the last call are not transitions, because it only reset their environments; None if none."""
        self._ended = np.zeros(self.n, bool)

    def reset(self, seeds: Sequence[int], marked: np.ndarray | None = None) -> np.ndarray:
        """Start episodes in all environments, or in the marked ones, and return the observations ``(n, d)``.

        If environments have no individual seeds, all depend on the first seed. Rows without a mark are meaningless.
        """
        arguments: dict[str, Any] = {"seed": [int(s) for s in seeds] if self.seeded else int(seeds[0])}
        self._ended = np.zeros(self.n, bool) if marked is None else self._ended & ~marked
        if marked is not None:
            # Gymnasium removes the mask from the options, so new options are passed each time.
            arguments = {"seed": arguments["seed"] if self.seeded else None, "options": {"reset_mask": marked.copy()}}
        with _noticing_death(self.env):
            observed, self.info = checked_reset(self.env, **arguments)
        rows = observations(observed, self.n, self.observations).astype(np.float32)
        if not np.isfinite(rows if marked is None else rows[marked]).all():
            raise Misfit("observations: got non-finite numbers from reset, want finite numbers")
        return rows

    def step(self, i: int, elements: Any, next_obs: np.ndarray, psi: np.ndarray) -> tuple[Flags, dict[str, Any]]:
        """Act with elements i to i + n; write observations and targets to the same rows, as `Single.step`."""
        self.time += 1
        n, rows = self.n, slice(i, i + self.n)
        with _noticing_death(self.env):
            returned = self.env.step(self._batch(elements[rows]))
        check_step(returned)
        observed, reward, terminated, truncated, info = returned
        obs = observations(observed, n, self.observations)
        terminated, truncated = flags("terminated", terminated, n), flags("truncated", truncated, n)
        self.resets = self._ended.copy() if self.skips and self._ended.any() else None
        if self.resets is not None:
            terminated, truncated = terminated & ~self.resets, truncated & ~self.resets
        over, info_of_step = terminated | truncated, with_final(info, n)
        psi[rows] = self._targets(reward, info_of_step)
        self._ended, self.first = over, None
        if self.mode is AutoresetMode.SAME_STEP and over.any():
            ended = np.flatnonzero(over)
            obs = obs.astype(np.float32)
            self.first = None if self.seeded else obs.copy()
            obs[ended] = last_observations(info, ended, self.observations)
        next_obs[rows] = obs
        return ((terminated, truncated) if over.any() else None), info_of_step

    def _batch(self, elements: Any) -> Any:
        """Return the actions of n environments as an element of the batched action space."""
        single = self.env.single_action_space
        if isinstance(single, gym.spaces.Dict | gym.spaces.Tuple):
            return concatenate(single, list(elements), create_empty_array(single, self.n))
        return np.asarray(elements, getattr(self.env.action_space, "dtype", None))

    def mask(self, name: str, info: dict[str, Any]) -> np.ndarray:
        """Return a mask of `info` ``(n, size)``, with its default in rows that are not set."""
        value = entry(info, name, self.n)
        assert value is not None  # the caller has found it
        entries, there = value
        entries = mask(name, entries, self.n, self.n_factors if name == "factor_mask" else self.n_targets)
        return np.where(there[:, None], entries, OPTIONAL[name])

    def _targets(self, reward: Any, info: dict[str, Any]) -> np.ndarray:
        n, m, resets = self.n, self.n_targets, self.resets
        if resets is not None and resets.all():  # there is no transition
            return np.zeros((n, m))
        value = entry(info, "vector_reward", n)
        rows, there = (reward, np.ones(n, bool)) if value is None else value
        missing = ~there if resets is None else ~(there | resets)
        if missing.any():
            raise Misfit(
                f"info['vector_reward']: is missing for environment {np.flatnonzero(missing)[0]}, want a row of {m} in "
                "each step; in AutoresetMode.SAME_STEP that of an episode's last step is in info['final_info']"
            )
        rows = target_rows(rows, n, m)
        return rows if resets is None else np.where(resets[:, None], 0.0, rows)

    def abandon(self) -> None:
        """Close as much as possible of a vector that has failed."""
        inner = self.env.unwrapped
        if isinstance(inner, AsyncVectorEnv):
            for process in inner.processes:  # closing it would wait for the process that has ended
                process.kill()
            inner.closed = True
            self.env = None
        else:
            super().abandon()


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


class Environments:
    """B environments in this process, in batches of n; ended ones are reset, with their own seeds if possible.

    In messages they are numbered `first`, `first` + 1, …. If a batch loses an episode (`EpisodeLost`), the episodes of
    all its environments are lost, because their states are unknown. If `lost` is a dictionary, such a batch is closed
    and noted there by the index of its first environment; its transitions are then zeros, and the caller must replace
    it (see `adopt`). If `lost` is None, the error is raised.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        n_envs: int,
        space: ActionSpace,
        n_targets: int,
        *,
        n_factors: int | None = None,
        first: int = 0,
    ):
        self.make, self.n_envs, self.space, self.n_targets = make, n_envs, space, n_targets
        self.n_factors, self.first = n_factors, first
        self.lost: dict[int, EpisodeLost] | None = None
        self.batches: list[Single] = []
        try:
            self.together = self._create().n
            """Number of environments in a batch."""
            check_multiple(n_envs, self.together)
            for _ in range(1, n_envs // self.together):
                self._create()
        except BaseException:
            self.close()
            raise
        self.calls_per_step = 2 if self.batches[0].skips else 1
        """Maximum number of actions per step."""
        self.obs: Any = None
        """Current observations, ``(B, d)``."""
        self.sums = np.zeros((n_envs, n_targets)), np.zeros(n_envs, np.int64)
        """Summed targets and lengths of the episodes in progress."""
        self.seeds: list[int] = [0] * n_envs
        """Seeds of the episodes in progress; for vectors that draw their own seeds, the seed of their first reset."""
        self.began = np.full(n_envs, -1)
        self.rngs: list[np.random.Generator] = []
        """Generators for the seeds of later episodes, one per environment."""
        self.calls: np.ndarray | None = None
        """The call of each transition of the last rollout, ``[T, B]``; None if each call was a step."""
        self.late: list[tuple[int, np.ndarray]] = []
        """Environment and targets of the episodes that ended in extra transitions of the last rollout."""

    def _create(self) -> Single:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StructureWarning)  # already shown when the first environment was created
            env = create(self.make)
        kind: Any = Vector if is_vector(env) else Single
        like = self.batches[0].action_space if self.batches else None
        try:
            batch = kind(env, self.space, self.n_targets, self.n_factors, like)
        except BaseException as error:
            env.close()
            if isinstance(error, Misfit):
                number = self.first + sum(each.n for each in self.batches)
                raise ValueError(f"environment {number} ({name_of(env)}): {error}") from None
            raise
        self.batches.append(batch)
        return batch

    @property
    def local(self) -> Any:
        """The function `local` of the environments, which returns local observations; None if there is none."""
        return self.batches[0].one.unwrapped.local

    @property
    def running(self) -> RunningEpisodes:
        """The episodes in progress after a rollout."""
        return RunningEpisodes(np.array(self.seeds, np.int64), self.began.copy(), self.obs.copy())

    def init(self, seed: int) -> None:
        """Start the first episodes; environment i is seeded with seed + i."""
        numbers = range(self.first, self.first + self.n_envs)
        # Not seed + i, with which runs of neighbouring seeds would share generators.
        self.rngs = [np.random.default_rng([abs(seed), i]) for i in numbers]
        self.begin([seed + i for i in numbers])

    def begin(self, seeds: Sequence[int]) -> None:
        """Start an episode in each environment with its seed."""
        self.seeds = [int(seed) for seed in seeds]
        self.obs = np.zeros((self.n_envs, self.batches[0].observations.size), np.float32)
        for i in range(0, self.n_envs, self.together):
            self.begin_batch(i)
        batch = self.batches[0]
        if self.first == 0 and ignores_mask(batch.info, batch.one.unwrapped, batch.observations):
            warn(
                "info['action_mask']: is ignored, so the policy may choose invalid actions; make it part of the "
                "observation: wrap single environments with fx.wrap(make, network, observe=['action_mask']) and "
                "vectorise those, or return Dict observations with an entry 'action_mask'"
            )

    def begin_batch(self, i: int) -> None:
        """Start the episodes of the batch that begins with environment i, with their seeds."""
        first = self._reset(i)
        if first is not None:
            self.obs[i : i + self.together] = first

    def _reset(self, i: int, marked: np.ndarray | None = None) -> np.ndarray | None:
        """Return the first observations of a batch, or of its marked environments; None if it was lost."""
        batch, seeds = self.batches[i // self.together], self.seeds[i : i + self.together]
        try:
            return batch.reset(seeds, marked)
        except Exception as error:
            if self._lose(i, error):
                return None
            where = f"{self.where(i)}, reset with seed {seeds[0]}"
            if isinstance(error, Misfit):
                raise ValueError(f"{where}: {error}") from None
            error.add_note(f"in {where}")
            raise

    def step(self, actions: np.ndarray) -> Transition:
        """Make one step in all environments; return the transition, ``[1, B, ...]``, for flat actions ``(B, c)``."""
        return self.collect(lambda obs: actions, 1)

    def collect(self, act: Callable[[np.ndarray], np.ndarray], n_steps: int) -> Transition:
        """Return `n_steps` transitions of all environments, ``[T, B, ...]``. Errors name the environment that raised
        them."""
        now = first = self.obs
        shape, to_environments = (n_steps * self.calls_per_step, self.n_envs), self.space.to_environments
        next_obs, actions = (
            np.zeros((*shape, now.shape[1]), np.float32),
            np.zeros((*shape, len(self.space)), np.float32),
        )
        # Targets are summed over episodes in double precision, and rounded afterwards.
        psi, terminated, truncated = np.zeros((*shape, self.n_targets)), np.zeros(shape, bool), np.zeros(shape, bool)
        # Which calls were transitions; None if all are.
        real = np.zeros(shape, bool) if self.calls_per_step > 1 else None
        optional: dict[str, Any] = dict.fromkeys(OPTIONAL)
        ends: list[tuple[int, int]] = []
        begun: list[tuple[int, int, np.ndarray]] = []
        finished: list[tuple[slice, np.ndarray]] = []
        restart = getattr(act, "restart", None)  # recurrent policies have it
        known = OPTIONAL.keys()
        places = range(0, self.n_envs, self.together)
        lost = {} if self.lost is None else self.lost
        playing = [(i, batch) for i, batch in zip(places, self.batches, strict=True) if i not in lost]
        t = -1
        for t in range(shape[0]):
            actions[t] = chosen = act(now)
            last, now, parts, over = now, next_obs[t], psi[t], []
            elements = to_environments(chosen)
            for i, batch in playing:
                try:
                    # Elements are indexed: the IndexError at the end of an iteration took 5 µs after SUMO.
                    flags, info = batch.step(i, elements, now, parts)
                    if not known.isdisjoint(info):
                        self._note(optional, shape, t, i, info)
                except Exception as error:
                    self._failed(i, error, last, t, ends)
                    now[i : i + batch.n], parts[i : i + batch.n] = 0.0, 0.0
                    continue
                if real is not None:
                    real[t, i : i + batch.n] = True if batch.resets is None else ~batch.resets
                if flags is not None:
                    rows = slice(i, i + batch.n)
                    terminated[t, rows], truncated[t, rows] = flags
                    over.append((i, batch, terminated[t, rows] | truncated[t, rows]))
            if over:
                now = now.copy()
                for i, batch, marked in over:
                    which = (i + np.flatnonzero(marked)).tolist()
                    ends += [(t, k) for k in which]
                    following = self._next_episodes(i, batch, marked)
                    if following is not None:
                        now[which] = following[marked]
                        begun += [(t, k, now[k]) for k in which]
                    if restart is not None:
                        for k in which:
                            restart(k)
            self.obs = now  # in every step: an interrupted rollout continues where it was
            if lost:
                playing = [(i, batch) for i, batch in playing if i not in lost]
            if real is not None and t >= n_steps - 1:
                for i, batch in list(playing):
                    rows = slice(i, i + batch.n)
                    if real[: t + 1, rows].sum(axis=0).min() >= n_steps:
                        finished.append((rows, now[rows].copy()))
                        playing.remove((i, batch))
            if not playing:
                break
        obs, self.obs = before(first, next_obs, begun), self.obs.copy()  # the caller may modify the transitions
        for rows, last_rows in finished:
            self.obs[rows] = last_rows
        # Once for the whole rollout, not in every step of every environment.
        finite = np.isfinite(psi).all(axis=-1) & np.isfinite(next_obs).all(axis=-1)
        if not finite.all():
            step, i = map(int, np.argwhere(~finite)[0])
            wrong = np.flatnonzero(~np.isfinite(psi[step, i]))
            what = f"target {wrong[0]} is {psi[step, i, wrong[0]]}" if len(wrong) else "the observation is not finite"
            where = self.where(i, step, ends) + (f", environment {self.first + i}" if self.together > 1 else "")
            raise FloatingPointError(f"{where}: {what}")
        fields = {"obs": obs, "action": actions, "next_obs": next_obs, "terminated": terminated, "truncated": truncated}
        return self._transitions(fields | optional, psi, real, ends, n_steps, t + 1)

    def _transitions(
        self,
        fields: dict[str, Any],
        psi: np.ndarray,
        real: np.ndarray | None,
        ends: list[tuple[int, int]],
        n_steps: int,
        count: int,
    ) -> Transition:
        """Return the first `n_steps` transitions of each environment, of `count` calls ``[C, B, ...]`` that ended
        episodes at `ends`."""
        all_real = np.ones(psi.shape[:2], bool) if real is None else real
        returns, lengths = sum_episodes(psi, all_real, ends, self.sums, count)
        fields |= {"psi": psi, "episode_psi": returns, "episode_length": lengths}
        self.began[:], self.calls, self.late = -1, None, []
        n_made = np.cumsum(all_real, axis=0)
        for t, i in ends:
            self.began[i] = min(n_made[t, i], n_steps)
            if n_made[t, i] > n_steps:
                self.late.append((i, returns[t, i].copy()))
        if real is not None:
            # Lost environments have made too few transitions; the missing ones stay zeros.
            self.calls, columns = np.argsort(~real, axis=0, kind="stable")[:n_steps], np.arange(self.n_envs)
            fields = {name: None if array is None else array[self.calls, columns] for name, array in fields.items()}
        fields["psi"] = fields["psi"].astype(np.float32)
        return Transition(**fields)

    def _note(self, optional: dict[str, Any], shape: tuple[int, int], t: int, i: int, info: dict[str, Any]) -> None:
        """Store the masks of an `info`; the first one creates the array ``[T, B, ...]`` with defaults."""
        for name, default in OPTIONAL.items():
            if info.get(name) is None:
                continue
            entries = self.batches[i // self.together].mask(name, info)
            if optional[name] is None:
                optional[name] = np.full((*shape, entries.shape[-1]), default)
            optional[name][t, i : i + self.together] = entries

    def _next_episodes(self, i: int, batch: Single, marked: np.ndarray) -> np.ndarray | None:
        """Return the first observations of the marked environments, whose episodes have ended; None if the next call
        returns them, or if the batch was lost."""
        if batch.skips:
            return None
        if batch.first is not None:
            return batch.first
        if batch.seeded:
            for k in i + np.flatnonzero(marked):
                self.seeds[k] = int(self.rngs[k].integers(2**31))
        return self._reset(i, marked)

    def _failed(self, i: int, error: Exception, last: np.ndarray, t: int, ends: list[tuple[int, int]]) -> None:
        """Close a batch that lost its episodes; raise any other error with its location."""
        if self._lose(i, error):
            return
        where = self.where(i, t, ends)
        if isinstance(error, Misfit):
            raise ValueError(f"{where}: {error}") from None
        if not np.isfinite(last[i : i + self.together]).all():
            raise FloatingPointError(f"{where}: the previous observation is not finite") from error
        error.add_note(f"in {where}")
        raise error

    def _lose(self, i: int, error: Exception) -> bool:
        """Close a batch if the error is the loss of its episodes, and if losses are noted; return whether it was."""
        if self.lost is None or not isinstance(error, EpisodeLost):
            return False
        self.lost[i] = error
        self.batches[i // self.together].abandon()
        return True

    def restore(self, episodes: Sequence[Episode]) -> None:
        """Replay all episodes to their current step; batches with an episode that does not repeat are lost."""
        self.obs = np.stack([episode.obs for episode in episodes])
        self.seeds = [episode.seed for episode in episodes]
        for i in range(0, self.n_envs, self.together):
            rows = slice(i, i + self.together)
            try:
                self.sums[0][rows], self.sums[1][rows] = _replay(self.batches[i // self.together], episodes[rows])
            except Exception as error:
                if not self._lose(i, error):
                    error.add_note(f"in {self.where(i)}, replaying episodes")
                    raise

    def another(self, i: int) -> "Environments":
        """Create the batch that begins with environment i once more."""
        first = self.first + i
        return Environments(self.make, self.together, self.space, self.n_targets, n_factors=self.n_factors, first=first)

    def adopt(self, i: int, other: "Environments") -> None:
        """Replace the batch that begins with environment i by the only one of `other`, with its episodes."""
        rows = slice(i, i + self.together)
        self.obs[rows], self.seeds[rows], self.began[rows] = other.obs, other.seeds, other.began
        for ours, theirs in zip(self.sums, other.sums, strict=True):
            ours[rows] = theirs
        self.batches[i // self.together] = other.batches[0]

    def where(self, i: int, t: int | None = None, ends: Sequence[tuple[int, int]] = ()) -> str:
        """Return the name of environment i, or of its batch, and its step if t is a step of the rollout."""
        batch, begin = self.batches[i // self.together], self.first + i // self.together * self.together
        if isinstance(batch, Vector):
            name = f"environments {begin} to {begin + batch.n - 1} ({batch.name})"
            return name if t is None else f"{name}, step {batch.time}"
        name = f"environment {begin} ({batch.name})"
        if t is None:
            return name
        begun = max((end + 1 for end, which in ends if which == i and end < t), default=-int(self.sums[1][i]))
        return f"{name}, step {t + 1 - begun} of its episode with seed {self.seeds[i]}"

    def close(self) -> None:
        """Close all environments, even if one of them cannot be closed."""
        with contextlib.ExitStack() as stack:
            for batch in self.batches:
                stack.callback(batch.close)


def _replay(batch: Single, episodes: Sequence[Episode]) -> tuple[np.ndarray, np.ndarray]:
    """Bring the environments of a batch to the current step of these episodes.

    Returns the summed targets ``(n, m)`` and lengths ``(n,)`` of the episodes. The longest episode is replayed from
    its first step. The environments of shorter episodes are stepped along and reset with their seeds later, so that
    all episodes end in the same step. Raises `EpisodeLost` if an episode does not repeat, or if a vector draws its own
    seeds.
    """
    if not batch.seeded:
        raise EpisodeLost(
            f"{batch.name} resets its environments with its own seeds, so its episodes cannot be replayed; want "
            "gymnasium.vector.SyncVectorEnv or AsyncVectorEnv, or a vector environment with metadata['seed_per_env']"
        )
    n, none = batch.n, np.zeros((0, len(batch.space)), np.float32)
    actions = [np.concatenate([*episode.actions, none]) for episode in episodes]
    lengths, seeds = np.array([len(each) for each in actions]), [episode.seed for episode in episodes]
    longest = int(lengths.max())
    starts = longest - lengths
    # Until its episode begins, an environment is stepped with any action: its reset forgets what came before.
    waiting = np.stack([each[0] if len(each) else np.zeros(len(batch.space), np.float32) for each in actions])
    obs = batch.reset(seeds)
    psi, over = np.zeros((longest, n, batch.n_targets)), np.zeros(n, bool)
    for t in range(longest + 1):
        again = ((starts == t) & (t > 0)) | over
        if again.any():
            obs = np.where(again[:, None], batch.reset(seeds, again), obs)
        if t == longest:
            break
        chosen = np.where(
            (starts <= t)[:, None],
            [each[t - s] if t >= s else w for each, s, w in zip(actions, starts, waiting, strict=True)],
            waiting,
        )
        obs = np.zeros((n, batch.observations.size), np.float32)
        flags, _ = batch.step(0, batch.space.to_environments(chosen), obs, psi[t])
        over = np.zeros(n, bool) if flags is None else np.ravel(flags[0]) | np.ravel(flags[1])
        if (over & (starts <= t)).any():
            raise _not_repeated(episodes[int(np.flatnonzero(over & (starts <= t))[0])])
    totals = np.zeros((n, batch.n_targets))
    for i, episode in enumerate(episodes):
        if not np.array_equal(obs[i], episode.obs):
            raise _not_repeated(episode)
        begin = starts[i]
        for part in episode.actions:  # summed in the original order
            totals[i] += psi[begin : begin + len(part), i].sum(axis=0)
            begin += len(part)
    return totals, lengths


def _not_repeated(episode: Episode) -> EpisodeLost:
    return EpisodeLost(
        f"a replay with seed {episode.seed} and the same {counted(episode.length, 'action')} gave different "
        "observations, so the episode cannot be continued; want an environment that draws all random numbers from the "
        "seed of its reset"
    )


def check_multiple(n_envs: int, together: int) -> None:
    """Raise ValueError unless `n_envs` is a multiple of the size of a vector."""
    if n_envs % together:
        more = together * max(2, -(-n_envs // together))
        raise ValueError(
            f"n_envs: got {n_envs}, but the problem is a vector environment with num_envs = {together}; want "
            f"n_envs={together} (the default), or a multiple such as {more} for several vectors"
        )
