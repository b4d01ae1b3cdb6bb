"""Rollouts of a JAX problem, inside a compiled program; those of Gymnasium environments are in `factorax.rollouts`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..problems.problem import Problem, Step
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
    """B episodes of a JAX problem, each begun anew when it ends.

    Of states the last axis is that of episodes, ``(..., B)``: an episode has little, and loops over long rows are fast
    on every device.
    """

    def __init__(self, problem: Problem, n_envs: int, space: ActionSpace):
        self.problem, self.n_envs, self.space = problem, n_envs, space
        self.n_targets = problem.network.shape[1]
        self.reset = jax.vmap(problem.reset, out_axes=(-1, 0))
        self.step = jax.vmap(self._step, in_axes=(0, -1, 0), out_axes=(-1, 0))

    def _step(self, key: jax.Array, state: Any, action: jax.Array) -> tuple[Any, Step]:
        new = self.problem.step(key, state, self.space.to_environment(action, jnp))
        return new.state, new._replace(state=None)

    def init(self, key: jax.Array) -> Any:
        """States, observations and empty episodes."""
        states, obs = self.reset(jax.random.split(key, self.n_envs))
        return states, obs, Episodes(jnp.zeros((self.n_envs, self.n_targets)), jnp.zeros(self.n_envs, jnp.int32))

    def collect(self, state: Any, act: Act, key: jax.Array, n_steps: int) -> tuple[Any, Transition]:
        """`n_steps` transitions of all environments, ``[T, B, ...]``. Pure: it may be compiled with what follows."""

        def step(state: Any, key: jax.Array) -> tuple[Any, Transition]:
            states, obs, episodes = state
            for_action, for_step, for_reset = jax.random.split(key, 3)
            action = act(for_action, obs)
            following, new = self.step(jax.random.split(for_step, self.n_envs), states, action)
            ended = new.terminated | new.truncated
            fresh, first = self.reset(jax.random.split(for_reset, self.n_envs))
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
            states = jax.tree.map(lambda a, b: jnp.where(ended, a, b), fresh, following)
            return (states, jnp.where(ended[:, None], first, new.obs), running), transition

        return jax.lax.scan(step, state, jax.random.split(key, n_steps))
