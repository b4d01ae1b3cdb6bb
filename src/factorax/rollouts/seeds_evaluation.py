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

from .._programs import OwnCompiled, OwnJit, compilation_settings
from .in_jax import CHUNK, LONGEST, JaxEnvironments, check_finite, keep_first

KINDS = (True, False)
"""Whether actions are the most probable ones."""


class SeedsEvaluation:
    """The programs that evaluate several policies of the same shapes.

    Results agree with those of `JaxCollector.play_episodes` for each policy, up to rounding.
    """

    def __init__(self, environments: JaxEnvironments):
        def play(act: Any, deterministic: Any, state: Any, key: jax.Array) -> Any:
            def chosen(*args: Any) -> Any:
                return act(*args, deterministic=deterministic)

            state, transitions = environments.collect(state, chosen, key, CHUNK)
            return state, (transitions.episode_length, transitions.episode_psi)

        each: Any = eqx.filter_vmap(play, in_axes=(eqx.if_array(0), 0, eqx.if_array(0), None))

        def policies(acts: Any, state: Any, key: jax.Array) -> Any:
            """One axis of policies and kinds: two would be traced one inside the other."""
            arrays, rest = eqx.partition(acts, eqx.is_array)
            twice = eqx.combine(jax.tree.map(lambda x: jnp.repeat(x, len(KINDS), axis=0), arrays), rest)
            return each(twice, jnp.tile(jnp.array(KINDS), len(jax.tree.leaves(arrays)[0])), state, key)

        def start(key: jax.Array, count: int) -> Any:
            state = environments.init(key)
            spread = lambda x: jnp.broadcast_to(x, (count * len(KINDS), *x.shape))  # noqa: E731
            return jax.tree.map(spread, state)

        self.environments = environments
        self._start, self._play = OwnJit(start), OwnJit(policies)
        self._compiled: Future[OwnCompiled | None] | None = None

    def _compile(self, acts: Any, count: int) -> OwnCompiled:
        key = jax.random.key(0)
        return self._play.compile(acts, self._start.shapes(key, count), key)

    def prepare(self, acts: Any, count: int) -> None:
        """Start tracing and compiling for policies like these, in another thread, unless this has begun already."""
        if self._compiled is not None:
            return
        wanted = compilation_settings()

        def work() -> OwnCompiled | None:
            if compilation_settings() != wanted:  # settings of JAX within a `with` statement are those of one thread
                return None
            program = self._compile(acts, count)
            self._start(jax.random.key(0), count)  # compiles it
            return program

        threads = ThreadPoolExecutor(1)
        self._compiled = threads.submit(work)
        threads.shutdown(wait=False)

    def play(self, acts: Any, count: int, seed: int = 0) -> np.ndarray:
        """Return targets summed over whole episodes, ``(count, 2, episodes, m)``, with the most probable actions and
        with sampled ones. The policies are ``act`` of `Behaviour` with a leading axis of policies."""
        prepared = None if self._compiled is None else self._compiled.result()
        if prepared is None:
            prepared = self._compile(acts, count)
            self._compiled = Future()
            self._compiled.set_result(prepared)
        environments = self.environments
        state, key = self._start(jax.random.key(seed), count), jax.random.key(seed + 1)
        episodes = environments.n_envs
        returns = np.zeros((count, len(KINDS), episodes, environments.n_targets))
        ended = np.zeros((count, len(KINDS), episodes), bool)
        for _ in range(LONGEST):
            key, for_chunk = jax.random.split(key)
            state, finished = prepared(acts, state, for_chunk)
            lengths, sums = (x.reshape(count, len(KINDS), *x.shape[1:]) for x in jax.device_get(finished))
            for where in np.ndindex(count, len(KINDS)):
                keep_first(returns[where], ended[where], lengths[where], sums[where])
            if ended.all():
                check_finite(returns.reshape(-1, environments.n_targets))
                return returns
        raise TimeoutError(f"evaluate: an episode did not end within {LONGEST * CHUNK:,} steps")
