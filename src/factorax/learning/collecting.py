"""Rollouts: of a JAX problem inside a compiled program, of Gymnasium environments in a loop of the host."""

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from ..problems.problem import Problem
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
        """`n_steps` transitions of all environments, ``[T, B, ...]``."""
        assert self.obs is not None
        B, m = self.n_envs, self.n_targets
        rows = []
        total, length = self.episodes
        for t in range(n_steps):
            obs = self.obs
            actions = act(obs)
            nxt, fresh = np.empty_like(obs), np.empty_like(obs)
            psi = np.zeros((B, m), np.float32)
            terminated, truncated = np.zeros(B, bool), np.zeros(B, bool)
            masks: list[Any] = [None] * B
            stopped: list[Any] = [None] * B
            for i, env in enumerate(self.envs):
                given = self.space.to_environment(actions[i])
                seen, reward, terminated[i], truncated[i], info = env.step(given)
                psi[i] = _targets(reward, info, m)
                nxt[i] = fresh[i] = _flat(seen)
                masks[i], stopped[i] = info.get("factor_mask"), info.get("target_terminated")
                if not (np.isfinite(psi[i]).all() and np.isfinite(nxt[i]).all()):
                    bad = np.flatnonzero(~np.isfinite(psi[i]))
                    what = f"target {bad[0]} is {psi[i][bad[0]]}" if len(bad) else "the observation is not finite"
                    raise FloatingPointError(f"environment {i}, step {t} of this rollout: {what}")
                if terminated[i] or truncated[i]:
                    fresh[i] = _flat(env.reset()[0])
            ended = terminated | truncated
            total, length = total + psi, length + 1
            rows.append(
                Transition(
                    obs,
                    actions,
                    psi,
                    nxt,
                    terminated,
                    truncated,
                    masks,
                    stopped,
                    np.where(ended[:, None], total, 0.0),
                    np.where(ended, length, 0),
                )
            )
            total, length = np.where(ended[:, None], 0.0, total), np.where(ended, 0, length)
            self.obs = fresh
        self.episodes = total, length
        optional = {name: _filled([getattr(row, name) for row in rows], default) for name, default in _OPTIONAL.items()}
        rows = [row._replace(factor_mask=None, target_terminated=None) for row in rows]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *rows)
        return stacked._replace(**optional)


_OPTIONAL = {"factor_mask": True, "target_terminated": False}
"""What an `info` may leave out, and what it then means: all factors acted, no target ended by itself."""


def _filled(given: list[list[Any]], default: bool) -> np.ndarray | None:
    """``[T, B, ...]`` of what some environments gave in some steps; None if none ever did."""
    one = next((x for row in given for x in row if x is not None), None)
    if one is None:
        return None
    missing = np.full(np.shape(one), default)
    return np.array([[missing if x is None else np.asarray(x, bool) for x in row] for row in given])


def _flat(obs: Any) -> np.ndarray:
    return np.asarray(obs, np.float32).ravel()


def _targets(reward: Any, info: dict[str, Any], m: int) -> np.ndarray:
    """The vector of targets of a step."""
    psi = np.asarray(info.get("vector_reward", reward), np.float32).ravel()
    if psi.shape != (m,):
        raise ValueError(
            f"info['vector_reward']: got {psi.shape[0]} targets, want {m}, one for each column of the influence network"
        )
    return psi
