"""Replays of a JAX problem: keys depend only on the seed and the step, so actions cannot shift them."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..problems.problem import Problem
from ..spec import Spec
from .simulator import ActingFunction, Simulator

BATCH_SIZE = 8  # of replays: one size, so that every program compiles once


class JaxSimulator(Simulator):
    """A pure-JAX problem; the replays of a call are batched."""

    def __init__(self, problem: Problem, horizon: int, policy: ActingFunction | None):
        super().__init__(Spec.of(problem, distribution="clip"), horizon, policy)
        self.problem = problem

    def _start(self, seed: Any) -> tuple[Any, jax.Array, jax.Array]:
        """Return the first state of an episode, and the keys of all steps and of all actions of the policy."""
        first, steps, acts = jax.random.split(jax.random.key(seed), 3)
        # All runs of a seed share its keys, whatever their actions are: streams cannot shift.
        start = (*self.problem.reset(first), jnp.array(False))
        return start, jax.random.split(steps, self.horizon), jax.random.split(acts, self.horizon)

    def _step(self, carry: Any, key: jax.Array, action: jax.Array) -> tuple[Any, jax.Array]:
        state, _, over = carry
        new = self.problem.step(key, state, self.space.to_environment(action, jnp))
        # A scan has a fixed length: steps after the end are computed and count nothing.
        psi = jnp.where(over, 0.0, new.psi)
        return (new.state, new.obs, over | new.terminated | new.truncated), psi

    @cached_property
    def _open_loop(self) -> Callable[..., jax.Array]:
        def run(seed: jax.Array, base: jax.Array, forced: jax.Array, mask: jax.Array) -> jax.Array:
            start, keys, _ = self._start(seed)

            def one(mask: jax.Array) -> jax.Array:
                return jax.lax.scan(lambda c, x: self._step(c, *x), start, (keys, jnp.where(mask, forced, base)))[1]

            return jax.vmap(one)(mask)

        return jax.jit(run)

    @cached_property
    def _closed_loop(self) -> Callable[..., tuple[jax.Array, jax.Array]]:
        policy: Any = self.policy

        def run(seed: jax.Array, forced: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
            start, keys, acts = self._start(seed)

            def one(mask: jax.Array) -> tuple[jax.Array, jax.Array]:
                def step(carry: Any, x: Any) -> Any:
                    key, act, force = x
                    action = jnp.where(mask, force, policy(act, carry[1]))
                    carry, psi = self._step(carry, key, action)
                    return carry, (psi, action)

                return jax.lax.scan(step, start, (keys, acts, forced))[1]

            # Sequentially: a matrix product may round differently in another row of a batch.
            return jax.lax.map(one, mask)

        return jax.jit(run)

    @cached_property
    def _one_step(self) -> Callable[..., jax.Array]:
        def run(seed: jax.Array, base: jax.Array, forced: jax.Array, mask: jax.Array) -> jax.Array:
            start, keys, _ = self._start(seed)

            def step(carry: Any, x: Any) -> Any:
                key, action, force = x
                psi = jax.vmap(lambda m: self._step(carry, key, jnp.where(m, force, action))[1])(mask)
                return self._step(carry, key, action)[0], psi

            return jnp.swapaxes(jax.lax.scan(step, start, (keys, base, forced))[1], 0, 1)

        return jax.jit(run)

    def play(self, seed: int, base: np.ndarray | None, forced: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Play the replays in batches of `BATCH_SIZE`."""
        self.steps += len(factors) * self.horizon
        if base is None:
            return self._in_chunks(lambda mask: self._closed_loop(seed, forced, mask)[0], factors)
        return self._in_chunks(lambda mask: self._open_loop(seed, base, forced, mask), factors)

    def play_once(self, seed: int, base: np.ndarray, forced: np.ndarray, factors: np.ndarray, t: int) -> np.ndarray:
        """Play each step with and without intervention."""
        self.steps += (len(factors) + 1) * self.horizon
        with_empty = np.vstack([np.zeros((1, factors.shape[1]), bool), factors])
        return self._in_chunks(lambda mask: self._one_step(seed, base, forced, mask), with_empty)

    def _in_chunks(self, run: Callable[[np.ndarray], jax.Array], factors: np.ndarray) -> np.ndarray:
        """Run in chunks of equal size, the last one padded with empty sets, so that only one program is compiled."""
        filled = np.vstack([factors, np.zeros((-len(factors) % BATCH_SIZE, factors.shape[1]), bool)])
        chunks = np.split(self._components(filled), len(filled) // BATCH_SIZE)
        return np.concatenate([np.asarray(run(chunk)) for chunk in chunks])[: len(factors)]

    def acted(self, seed: int) -> np.ndarray:
        """Play an episode without intervention and return its actions."""
        self.steps += self.horizon
        nothing = np.zeros((self.horizon, len(self.space)), np.float32)
        return np.asarray(self._closed_loop(seed, nothing, np.zeros((1, len(self.space)), bool))[1][0])
