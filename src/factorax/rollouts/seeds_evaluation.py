"""Evaluation of several policies at once over whole episodes, with most probable actions and with sampled ones.

One program evaluates all of them, instead of one program per policy and kind of actions. It can be compiled in the
background.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._programs import OwnCompiled, OwnJit, note_new_program
from .in_jax import CHUNK, LONGEST, JaxEnvironments, check_finite, keep_first

KINDS = (True, False)
"""Whether actions are the most probable ones."""


class SeedsEvaluation:
    """The programs that evaluate several policies of the same shapes.

    Results agree with those of `JaxCollector.play_episodes` for each policy, up to rounding.
    """

    def __init__(self, environments: JaxEnvironments):
        note_new_program()

        def play(act: Any, deterministic: Any, state: Any, key: jax.Array) -> Any:
            def chosen(*args: Any) -> Any:
                return act(*args, deterministic=deterministic)

            state, transitions = environments.collect(state, chosen, key, CHUNK)
            return state, (transitions.episode_length, transitions.episode_psi)

        kinds = eqx.filter_vmap(play, in_axes=(None, 0, eqx.if_array(0), None))
        policies: Any = eqx.filter_vmap(kinds, in_axes=(eqx.if_array(0), None, eqx.if_array(0), None))

        def start(key: jax.Array, count: int) -> Any:
            state = environments.init(key)
            spread = lambda x: jnp.broadcast_to(x, (count, len(KINDS), *x.shape))  # noqa: E731
            return jax.tree.map(spread, state)

        self.environments = environments
        self._start, self._play = OwnJit(start), OwnJit(policies)
        self._compiled: Future[OwnCompiled] | None = None

    def prepare(self, acts: Any, count: int) -> None:
        """Start compiling for policies like these, in another thread."""
        key = jax.random.key(0)
        lowered = self._play.lower(acts, jnp.array(KINDS), self._start.shapes(key, count), key)
        threads = ThreadPoolExecutor(1)
        self._compiled = threads.submit(lambda: OwnCompiled(lowered.compile()))
        threads.shutdown(wait=False)

    def play(self, acts: Any, count: int, seed: int = 0) -> np.ndarray:
        """Return targets summed over whole episodes, ``(count, 2, episodes, m)``, with the most probable actions and
        with sampled ones. The policies are ``act`` of `Behaviour` with a leading axis of policies."""
        if self._compiled is None:
            self.prepare(acts, count)
        assert self._compiled is not None
        program, environments = self._compiled.result(), self.environments
        state, key = self._start(jax.random.key(seed), count), jax.random.key(seed + 1)
        kinds, episodes = jnp.array(KINDS), environments.n_envs
        returns = np.zeros((count, len(KINDS), episodes, environments.n_targets))
        ended = np.zeros((count, len(KINDS), episodes), bool)
        for _ in range(LONGEST):
            key, for_chunk = jax.random.split(key)
            state, finished = program(acts, kinds, state, for_chunk)
            lengths, sums = jax.device_get(finished)
            for where in np.ndindex(count, len(KINDS)):
                keep_first(returns[where], ended[where], lengths[where], sums[where])
            if ended.all():
                check_finite(returns.reshape(-1, environments.n_targets))
                return returns
        raise TimeoutError(f"evaluate: an episode did not end within {LONGEST * CHUNK:,} steps")
