"""Rollouts of a JAX problem inside the compiled program."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._arrays import zeros
from .._xla import any_of_all
from ..observations import ObservationSpace
from ..problems.problem import Problem, Step
from ..spaces import ActionSpace
from ..spec import Spec
from .collector import Behaviour, Collector
from .transitions import Transition

CHUNK = 64
"""Number of evaluation steps per call of a compiled program."""
LONGEST = 10_000
"""Maximum number of calls of an evaluation."""
FIRST_STATES = 2**22
"""Maximum number of bytes of initial states that a rollout computes at once."""


class EpisodeSums(NamedTuple):
    """Sums over the episodes in progress."""

    psi: jax.Array
    """Targets, ``(B, m)``."""
    length: jax.Array
    """Steps, ``(B,)``."""


Act = Callable[..., Any]
"""Maps a key and raw observations ``(B, d)`` to flat actions ``(B, c)``; a recurrent policy also takes and returns its
memory ``(B, h)``."""


class JaxEnvironments:
    """B episodes of a JAX problem in parallel; each is reset when it ends.

    States have the axis of episodes last, ``(..., B)``: one episode has little data, and loops over long rows are fast
    on all devices.
    """

    def __init__(self, problem: Any, n_envs: int, components: ActionSpace, memory: int = 0):
        """Create the environments; `memory` is the size of the memory of a recurrent policy."""
        self.problem: Problem = problem
        self.n_envs, self.components, self.memory = n_envs, components, memory
        self.observations = ObservationSpace.of(self.problem.observation_space)
        self.n_targets = self.problem.network.static.shape[1]
        self.reset = jax.vmap(self._reset, out_axes=(-1, 0))
        self.step = jax.vmap(self._step, in_axes=(0, -1, 0), out_axes=(-1, 0))

    def resized(self, n_envs: int) -> "JaxEnvironments":
        """Return this many episodes of the same problem."""
        return JaxEnvironments(self.problem, n_envs, self.components, self.memory)

    def _step(self, key: jax.Array, state: Any, action: jax.Array) -> tuple[Any, Step]:
        new = self.problem.step(key, state, self.components.to_environment(action, jnp))
        return new.state, new._replace(state=None, obs=self._row(new.obs))

    def _reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        state, obs = self.problem.reset(key)
        return state, self._row(obs)

    def _row(self, obs: Any) -> jax.Array:
        """Return an observation as a row of numbers."""
        return obs if self.observations.is_plain and obs.ndim == 1 else self.observations.row(obs, jnp)

    def init(self, key: jax.Array) -> Any:
        """Return states, observations, empty sums, and the memory of the policy (None if it has none)."""
        states, obs = self.reset(jax.random.split(key, self.n_envs))
        sums = EpisodeSums(zeros((self.n_envs, self.n_targets)), zeros(self.n_envs, np.int32))
        return states, obs, sums, zeros((self.n_envs, self.memory)) if self.memory else None

    def collect(self, state: Any, act: Act, key: jax.Array, n_steps: int) -> tuple[Any, Transition]:
        """Return `n_steps` transitions of all environments, ``[T, B, ...]``. A pure function."""

        def step(state: Any, keys: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[Any, Transition]:
            states, obs, sums, memory = state
            for_action, for_step, for_reset = keys
            before = memory
            if memory is None:
                action = act(for_action, obs)
            else:
                action, memory = act(for_action, obs, memory)
            following, new = self.step(for_step, states, action)
            ended = new.terminated | new.truncated
            if beforehand:
                fresh, first_obs = for_reset
            elif jax.default_backend() == "cpu":  # on a GPU, the host would wait for the condition
                fresh, first_obs = self._reset_if(any_of_all(ended), for_reset, (following, new.obs))
            else:
                fresh, first_obs = self.reset(for_reset)
            psi = new.psi.astype(jnp.float32)
            total, length = sums.psi + psi, sums.length + 1
            transition = Transition(
                obs=obs,
                action=action,
                psi=psi,
                next_obs=new.obs,
                terminated=new.terminated,
                truncated=new.truncated,
                factor_mask=new.factor_mask,
                target_terminated=new.target_terminated,
                episode_psi=jnp.where(ended[:, None], total, 0.0),
                episode_length=jnp.where(ended, length, 0),
                memory=before,
            )
            running = EpisodeSums(jnp.where(ended[:, None], 0.0, total), jnp.where(ended, 0, length))
            states = jax.tree.map(lambda a, b: jnp.where(ended, a, b), fresh, following)
            memory = None if memory is None else jnp.where(ended[:, None], 0.0, memory)
            return (states, jnp.where(ended[:, None], first_obs, new.obs), running, memory), transition

        # Split all keys at once: a split in every step is a loop of small operations, which slows down small problems.
        by_step = jax.vmap(lambda key: jax.random.split(key, 3))(jax.random.split(key, n_steps))

        def by_environment(keys: jax.Array) -> jax.Array:
            return jax.vmap(lambda key: jax.random.split(key, self.n_envs))(keys)

        for_resets: Any = by_environment(by_step[:, 2])
        # The same holds for initial states, as long as they fit into little memory.
        beforehand = not self.has_large_states(n_steps)
        if beforehand:
            for_resets = jax.vmap(self.reset)(for_resets)
        return jax.lax.scan(step, state, (by_step[:, 0], by_environment(by_step[:, 1]), for_resets))

    def has_large_states(self, n_steps: int) -> bool:
        """Return whether a rollout computes initial states only when an episode has ended."""
        keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), self.n_envs))
        states = jax.eval_shape(self.reset, keys)
        return n_steps * sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(states)) > FIRST_STATES

    def _reset_if(self, condition: jax.Array, keys: jax.Array, otherwise: Any) -> Any:
        """Return initial states and observations, or other ones if the condition does not hold."""

        def keep(_: jax.Array) -> Any:  # both branches need the same types, and problems may mix them
            types = jax.eval_shape(self.reset, keys)
            return jax.tree.map(lambda x, y: x if x.dtype == y.dtype else x.astype(y.dtype), otherwise, types)

        return jax.lax.cond(condition, self.reset, keep, keys)


class SteppedJaxEnvironments:
    """Environments of a JAX problem that are stepped one transition at a time with given actions."""

    def __init__(self, problem: Any, n_envs: int, components: ActionSpace):
        environments = self._environments = JaxEnvironments(problem, n_envs, components)
        self._state: Any = None
        self._key = jax.random.key(0)
        self._step = jax.jit(lambda state, key, actions: environments.collect(state, lambda _, obs: actions, key, 1))

    @property
    def obs(self) -> np.ndarray:
        """Current observations, ``(B, d)``."""
        return np.asarray(self._state[1])

    def init(self, seed: int) -> None:
        """Start all episodes."""
        self._key, key = jax.random.split(jax.random.key(seed))
        self._state = self._environments.init(key)

    def step(self, actions: np.ndarray) -> Transition:
        """Return one transition of all environments, ``[1, B, ...]``."""
        self._key, key = jax.random.split(self._key)
        self._state, transitions = self._step(self._state, key, jnp.asarray(actions))
        return jax.tree.map(np.asarray, transitions)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class JaxCollector(Collector):
    """Rollouts of a JAX problem."""

    traced = True

    def __init__(self, spec: Spec, n_envs: int, n_steps: int, memory: int = 0):
        self.environments = JaxEnvironments(spec.problem, n_envs, spec.components, memory)
        self.n_steps = n_steps
        # Of this object, with which the compiled programs are released; a cache of the method would keep both.
        self._evaluation = lru_cache(4)(partial(_Evaluation, self.environments))

    def init(self, key: Any) -> Any:
        """Return states, observations and empty sums of all environments."""
        return self.environments.init(key)

    def collect(self, behaviour: Behaviour, environments: Any, key: Any) -> tuple[Any, Any, Transition]:
        """Return one rollout. A pure function."""
        key, for_rollout = jax.random.split(key)
        environments, transitions = self.environments.collect(environments, behaviour.act, for_rollout, self.n_steps)
        return environments, key, transitions

    def play_episodes(self, behaviour: Behaviour, episodes: int, *, deterministic: bool, seed: int) -> np.ndarray:
        """Play all episodes in parallel, in a program that is compiled once per number of episodes."""
        evaluation = self._evaluation(episodes, deterministic)
        state, key = evaluation.init(jax.random.key(seed)), jax.random.key(seed + 1)
        returns, ended = np.zeros((episodes, self.environments.n_targets)), np.zeros(episodes, bool)
        for _ in range(LONGEST):
            key, for_chunk = jax.random.split(key)
            state, transitions = evaluation.play(behaviour.act, state, for_chunk)
            length, psi = np.asarray(transitions.episode_length), np.asarray(transitions.episode_psi)
            for i in np.flatnonzero(~ended & length.any(axis=0)):  # the first episode of each environment counts
                returns[i], ended[i] = psi[np.flatnonzero(length[:, i])[0], i], True
            if ended.all():
                break
        else:
            raise TimeoutError(
                f"evaluate: an episode did not end within {LONGEST * CHUNK:,} steps; want a problem whose episodes end"
            )
        for i, j in np.argwhere(~np.isfinite(returns)):
            raise FloatingPointError(f"evaluate: target {j} of episode {i} is {returns[i, j]}")
        return returns


class _Evaluation:
    """The compiled programs of an evaluation."""

    def __init__(self, environments: JaxEnvironments, episodes: int, deterministic: bool):
        environments = environments.resized(episodes)

        def play(act: Any, state: Any, key: jax.Array) -> Any:
            return environments.collect(state, partial(act, deterministic=deterministic), key, CHUNK)

        self.init, self.play = jax.jit(environments.init), jax.jit(play)
