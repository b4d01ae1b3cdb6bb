"""Rollouts of a JAX problem, inside a compiled program; those of Gymnasium environments are in `factorax.rollouts`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..problems.problem import Problem
from ..rollouts.transitions import Transition
from .actions import ActionSpace


class Episodes(NamedTuple):
    """Returns of the episodes in progress, and of those that ended in a rollout."""

    psi: jax.Array
    """Sums so far, ``(B, m)``."""
    length: jax.Array
    """``(B,)``"""


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
