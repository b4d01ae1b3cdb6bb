"""Rollouts: of a JAX problem inside a compiled program, of Gymnasium environments in a loop of the host."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from ..problems.problem import Problem
from ..structure import StructureWarning
from .actions import ActionSpace


class Episodes(NamedTuple):
    """Returns of the episodes in progress, and of those that ended in a rollout."""

    psi: jax.Array
    """Sums so far, ``(B, m)``."""
    length: jax.Array
    """``(B,)``"""


class Transition(NamedTuple):
    """What one step of B environments gave, as arrays of JAX or NumPy."""

    obs: Any
    action: Any
    psi: Any
    next_obs: Any
    terminated: Any
    truncated: Any
    factor_mask: Any
    """``(B, n)`` or None."""
    target_terminated: Any
    """``(B, m)`` or None."""
    episode_psi: Any
    """The targets of an episode that ended here, ``(B, m)``; else nought."""
    episode_length: Any


Act = Callable[[jax.Array, jax.Array], jax.Array]
"""From a key and raw observations ``(B, d)`` to actions ``(B, c)``."""


class JaxEnvironments:
    """B episodes of a JAX problem, each begun anew when it ends."""

    def __init__(self, problem: Problem, n_envs: int, space: ActionSpace):
        self.problem, self.n_envs, self.space = problem, n_envs, space
        self.n_targets = problem.network.shape[1]

    def init(self, key: jax.Array) -> Any:
        """States, observations and empty episodes."""
        states, obs = jax.vmap(self.problem.reset)(jax.random.split(key, self.n_envs))
        return states, obs, Episodes(jnp.zeros((self.n_envs, self.n_targets)), jnp.zeros(self.n_envs, jnp.int32))

    def collect(self, state: Any, act: Act, key: jax.Array, n_steps: int) -> tuple[Any, Transition]:
        """`n_steps` transitions of all environments, ``[T, B, ...]``. Pure: it may be compiled with what follows."""

        def step(state: Any, key: jax.Array) -> tuple[Any, Transition]:
            states, obs, episodes = state
            for_action, for_step, for_reset = jax.random.split(key, 3)
            action = act(for_action, obs)
            given = jax.vmap(lambda a: self.space.to_environment(a, jnp))(action)
            new = jax.vmap(self.problem.step)(jax.random.split(for_step, self.n_envs), states, given)
            ended = new.terminated | new.truncated
            fresh, first = jax.vmap(self.problem.reset)(jax.random.split(for_reset, self.n_envs))

            def choose(a: jax.Array, b: jax.Array) -> jax.Array:
                return jnp.where(ended.reshape(-1, *[1] * (a.ndim - 1)), a, b)

            psi = new.psi.astype(jnp.float32)
            total, length = episodes.psi + psi, episodes.length + 1
            transition = Transition(
                obs,
                action,
                psi,
                new.obs,
                new.terminated,
                new.truncated,
                new.factor_mask,
                new.target_terminated,
                jnp.where(ended[:, None], total, 0.0),
                jnp.where(ended, length, 0),
            )
            running = Episodes(jnp.where(ended[:, None], 0.0, total), jnp.where(ended, 0, length))
            return (jax.tree.map(choose, fresh, new.state), choose(first, new.obs), running), transition

        return jax.lax.scan(step, state, jax.random.split(key, n_steps))


class HostEnvironments:
    """B Gymnasium environments in this process; each is reset in the step in which it ends."""

    def __init__(self, factory: Callable[[], gym.Env], n_envs: int, space: ActionSpace, n_targets: int):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StructureWarning)  # said when the learner made its first
            self.envs = [factory() for _ in range(n_envs)]
        self.n_envs, self.space, self.n_targets = n_envs, space, n_targets
        self.obs: np.ndarray | None = None
        self.episodes = np.zeros((n_envs, n_targets)), np.zeros(n_envs, np.int64)

    def init(self, seed: int, timesteps: int = 0) -> None:
        """Begin the first episodes; environment i is seeded with seed + i, later in a run with a seed of its own."""
        seeds = np.arange(seed, seed + self.n_envs)
        if timesteps:  # a run that goes on must not play its first episodes again
            seeds = np.random.SeedSequence([seed, timesteps]).generate_state(self.n_envs) >> 1
        self.obs = np.stack([_flat(env.reset(seed=int(s))[0]) for s, env in zip(seeds, self.envs, strict=True)])

    def collect(self, act: Callable[[np.ndarray], np.ndarray], n_steps: int) -> Transition:
        """`n_steps` transitions of all environments, ``[T, B, ...]``. What an environment raises, names it."""
        assert self.obs is not None
        shape, m = (n_steps, self.n_envs), self.n_targets
        first, last, actions, terminated, truncated, optional = [], [], [], [], [], {name: [] for name in _OPTIONAL}
        psi, ends = np.empty((*shape, m)), []
        for t in range(n_steps):
            first.append(self.obs)
            actions.append(act(self.obs))
            seen, rewards, ended, cut, infos = self._step(self.space.to_environments(actions[t]), t)
            _put_targets(psi[t], rewards, infos)
            obs = self.obs = _flat_all(seen)
            last.append(obs)
            terminated.append(ended)
            truncated.append(cut)
            for name, default in _OPTIONAL.items():
                optional[name].append(_filled([info.get(name) for info in infos], default))
            if any(ended) or any(cut):
                self.obs = obs.copy()
                for i in np.flatnonzero(np.logical_or(ended, cut)):
                    ends.append((t, i))
                    self.obs[i] = self._reset(int(i), t)
        next_obs = np.stack(last)
        _check_finite(psi, next_obs)
        return Transition(
            np.stack(first),
            np.stack(actions),
            psi.astype(np.float32),
            next_obs,
            np.array(terminated, bool),
            np.array(truncated, bool),
            _filled(optional["factor_mask"], True),
            _filled(optional["target_terminated"], False),
            *self._episodes_that_ended(psi, ends),
        )

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

    def _step(self, actions: Any, t: int) -> Any:
        """Step every environment once: five lists of what they gave."""
        given = []
        try:
            for env, action in zip(self.envs, actions, strict=True):
                given.append(env.step(action))
        except Exception as error:
            i = len(given)
            if self.obs is not None and not np.isfinite(self.obs[i]).all():
                before = f"environment {i}, before step {t} of this rollout: the observation is not finite"
                raise FloatingPointError(before) from error
            error.add_note(f"in environment {i}, step {t} of this rollout")
            raise
        return zip(*given, strict=True)

    def _reset(self, i: int, t: int) -> np.ndarray:
        try:
            return _flat(self.envs[i].reset()[0])
        except Exception as error:
            error.add_note(f"in the reset of environment {i} after step {t} of this rollout")
            raise


_OPTIONAL = {"factor_mask": True, "target_terminated": False}
"""What an `info` may leave out, and what it then means: all factors acted, no target ended by itself."""


def _filled(given: list[Any], default: bool) -> np.ndarray | None:
    """``(B, ...)`` of what some environments gave; None if none did."""
    one = next((x for x in given if x is not None), None)
    if one is None:
        return None
    missing = np.full(np.shape(one), default)
    return np.array([missing if x is None else x for x in given], bool)


def _flat(obs: Any) -> np.ndarray:
    return np.asarray(obs, np.float32).ravel()


def _flat_all(seen: Sequence[Any]) -> np.ndarray:
    """Observations as ``(B, d)``, a fresh array: there are environments that change what they returned."""
    try:
        obs = np.array(seen, np.float32)
    except ValueError:
        sizes = [np.size(obs) for obs in seen]
        raise ValueError(f"observations: got {sizes} numbers from the environments, want as many from all") from None
    return obs if obs.ndim == 2 else obs.reshape(len(seen), -1)


def _check_finite(psi: np.ndarray, obs: np.ndarray) -> None:
    """Raise at the first number that is none, of the targets or the observations ``[T, B, ...]`` after them."""
    bad = ~(np.isfinite(psi).all(axis=-1) & np.isfinite(obs).all(axis=-1))
    if bad.any():
        t, i = np.argwhere(bad)[0]
        targets = np.flatnonzero(~np.isfinite(psi[t, i]))
        what = f"target {targets[0]} is {psi[t, i, targets[0]]}" if len(targets) else "the observation is not finite"
        raise FloatingPointError(f"environment {i}, step {t} of this rollout: {what}")


def _put_targets(psi: np.ndarray, rewards: Sequence[Any], infos: Sequence[dict[str, Any]]) -> None:
    """Copy the vectors of targets of a step to ``(B, m)``."""
    given: Any = [info.get("vector_reward", reward) for info, reward in zip(infos, rewards, strict=True)]
    m = psi.shape[1]
    try:
        if m == 1 and np.ndim(given[0]) == 0:
            psi[:, 0] = given
            return
        if np.shape(given[0]) != (m,):  # perhaps a mistake, which NumPy would spread over all targets
            given = [np.reshape(one, (m,)) for one in given]
        psi[:] = given
    except ValueError:
        i = next((i for i, one in enumerate(given) if np.size(one) != m), 0)
        raise ValueError(
            f"info['vector_reward']: got {np.size(given[i])} targets, want {m}, one for each column of the influence "
            f"network; it is environment {i} that gave them"
        ) from None
