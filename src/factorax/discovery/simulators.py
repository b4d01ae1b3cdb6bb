"""Simulators that can be run again from a seed: the same random numbers, other actions.

Actions are flat, ``(c,)``, as `ActionSpace` has them. A *policy* is a function of a JAX key and an observation ``(d,)``
that gives one; a trained `FactoredPPO` will do.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..learning.actions import ActionSpace
from ..problems.problem import Problem
from ..rollouts.components import BERNOULLI, CATEGORICAL
from ..structure import InfluenceNetwork

Policy = Callable[[Any, Any], Any]
RATES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""How often an action sequence leaves the value that it mostly has: held for long, or new at every step."""

SIDE_BY_SIDE = 8
"""Re-runs of a JAX problem in one call."""


class Simulator(ABC):
    """What can be re-run, with n factors, m targets and episodes of `horizon` steps. Its `steps` are counted."""

    network: InfluenceNetwork
    """Of the right shape and with labels; its edges are not used."""

    def __init__(self, space: ActionSpace, network: InfluenceNetwork, horizon: int, policy: Policy | None):
        self.space, self.network, self.horizon, self.policy, self.steps = space, network, horizon, policy, 0
        groups = None if network.factorisation is None else network.factorisation.group_of
        self.factor_of = np.arange(len(space)) if groups is None else np.asarray(groups)
        if len(self.factor_of) != len(space) or self.factor_of.max() + 1 != network.shape[0]:
            raise ValueError(
                f"problem: its network has {network.shape[0]} rows, and the action space {len(space)} components; "
                "want one row for each, or a network that `factor` made"
            )

    @abstractmethod
    def play(self, seed: int, base: np.ndarray | None, forced: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Targets ``(B, T, m)`` of an episode for each of B sets of factors, booleans ``(B, n)``.

        Those factors do what is `forced`, ``(T, c)``; the others what they did in `base`, ``(T, c)``, or, if that is
        None, what the policy answers. Nought after the episode's end.
        """

    @abstractmethod
    def play_once(self, seed: int, base: np.ndarray, forced: np.ndarray, factors: np.ndarray, t: int) -> np.ndarray:
        """Targets ``(B, T, m)`` of single steps, each from the state that `base` leads to, with and without force: of
        all T steps where states can be kept, else of step `t` alone, T = 1. The first row is without."""

    @abstractmethod
    def acted(self, seed: int) -> np.ndarray:
        """What the policy does in an episode that nobody interferes with, ``(T, c)``."""

    def sequence(self, rng: np.random.Generator, *, alike: bool) -> np.ndarray:
        """Actions ``(T, c)`` of many kinds: held for the whole episode, changed now and then, new at every step; by
        each component as it likes, or by all `alike`: what reaches far may need that."""
        size = 1 if alike else len(self.space)
        mostly, other = (self._draw(rng, (steps, size)) for steps in (1, self.horizon))
        leaves = rng.random((self.horizon, size)) < rng.choice(RATES, size)
        return np.where(leaves, other, mostly).astype(np.float32)

    def unlike(self, base: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Actions as of `sequence`, of which each component differs from `base` in at least one step. Each has its own:
        what two components do alike may cancel."""
        other = self.sequence(rng, alike=False)
        for c in np.flatnonzero((other == base).all(axis=0)):
            kind, choices = self.space.kinds[c], int(self.space.choices[c])
            t = rng.integers(len(base))
            if kind == BERNOULLI:
                other[t, c] = 1 - other[t, c]
            elif kind == CATEGORICAL and choices > 1:
                other[t, c] = (other[t, c] + rng.integers(1, choices)) % choices
        return other

    def _draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        """Uniform over choices and between bounds; normal where there are none. Of a shape ``(T, 1)`` all components
        are made from the same numbers."""
        space, normal = self.space, rng.normal(size=shape)
        below, above = np.isfinite(space.low), np.isfinite(space.high)
        low, high = np.where(below, space.low, 0.0), np.where(above, space.high, 0.0)
        free = np.where(below, low + np.abs(normal), np.where(above, high - np.abs(normal), normal))
        drawn = np.where(below & above, low + rng.random(shape) * (high - low), free)
        choices = np.where(np.array(space.kinds) == BERNOULLI, 2, space.choices)
        whole = np.isin(space.kinds, (BERNOULLI, CATEGORICAL))
        return np.where(whole, np.floor(rng.random(shape) * choices), drawn)

    def _components(self, factors: np.ndarray) -> np.ndarray:
        return np.asarray(factors, bool)[:, self.factor_of]


class JaxSimulator(Simulator):
    """A pure-JAX problem: all re-runs of a call at once."""

    def __init__(self, problem: Problem, horizon: int, policy: Policy | None):
        super().__init__(ActionSpace.of(problem.action_space), problem.network, horizon, policy)
        self.problem = problem

    def _keys(self, seed: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
        first, steps, acts = jax.random.split(jax.random.key(seed), 3)
        return first, jax.random.split(steps, self.horizon), jax.random.split(acts, self.horizon)

    def _step(self, carry: Any, key: jax.Array, action: jax.Array) -> tuple[Any, jax.Array]:
        state, _, over = carry
        new = self.problem.step(key, state, self.space.to_environment(action, jnp))
        psi = jnp.where(over, 0.0, new.psi)
        return (new.state, new.obs, over | new.terminated | new.truncated), psi

    @cached_property
    def _replayed(self) -> Callable[..., jax.Array]:
        def run(seed: jax.Array, base: jax.Array, forced: jax.Array, mask: jax.Array) -> jax.Array:
            first, keys, _ = self._keys(seed)
            start = (*self.problem.reset(first), jnp.array(False))

            def one(mask: jax.Array) -> jax.Array:
                return jax.lax.scan(lambda c, x: self._step(c, *x), start, (keys, jnp.where(mask, forced, base)))[1]

            return jax.vmap(one)(mask)

        return jax.jit(run)

    @cached_property
    def _answered(self) -> Callable[..., tuple[jax.Array, jax.Array]]:
        assert self.policy is not None
        policy: Policy = self.policy

        def run(seed: jax.Array, forced: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
            first, keys, acts = self._keys(seed)
            start = (*self.problem.reset(first), jnp.array(False))

            def one(mask: jax.Array) -> tuple[jax.Array, jax.Array]:
                def step(carry: Any, x: Any) -> Any:
                    key, act, force = x
                    action = jnp.where(mask, force, policy(act, carry[1]))
                    carry, psi = self._step(carry, key, action)
                    return carry, (psi, action)

                return jax.lax.scan(step, start, (keys, acts, forced))[1]

            # One after the other: a product of matrices may round otherwise in another row of a batch.
            return jax.lax.map(one, mask)

        return jax.jit(run)

    @cached_property
    def _once(self) -> Callable[..., jax.Array]:
        def run(seed: jax.Array, base: jax.Array, forced: jax.Array, mask: jax.Array) -> jax.Array:
            first, keys, _ = self._keys(seed)
            start = (*self.problem.reset(first), jnp.array(False))

            def step(carry: Any, x: Any) -> Any:
                key, action, force = x
                psi = jax.vmap(lambda m: self._step(carry, key, jnp.where(m, force, action))[1])(mask)
                return self._step(carry, key, action)[0], psi

            return jnp.swapaxes(jax.lax.scan(step, start, (keys, base, forced))[1], 0, 1)

        return jax.jit(run)

    def play(self, seed: int, base: np.ndarray | None, forced: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Some at a time, side by side."""
        self.steps += len(factors) * self.horizon
        if base is None:
            return self._in_chunks(lambda mask: self._answered(seed, forced, mask)[0], factors)
        return self._in_chunks(lambda mask: self._replayed(seed, base, forced, mask), factors)

    def play_once(self, seed: int, base: np.ndarray, forced: np.ndarray, factors: np.ndarray, t: int) -> np.ndarray:
        """Of every step."""
        self.steps += (len(factors) + 1) * self.horizon
        with_nobody = np.vstack([np.zeros((1, factors.shape[1]), bool), factors])
        return self._in_chunks(lambda mask: self._once(seed, base, forced, mask), with_nobody)

    def _in_chunks(self, run: Callable[[np.ndarray], jax.Array], factors: np.ndarray) -> np.ndarray:
        """Sets of nobody fill the last chunk up: one size, one compilation."""
        filled = np.vstack([factors, np.zeros((-len(factors) % SIDE_BY_SIDE, factors.shape[1]), bool)])
        chunks = np.split(self._components(filled), len(filled) // SIDE_BY_SIDE)
        return np.concatenate([np.asarray(run(chunk)) for chunk in chunks])[: len(factors)]

    def acted(self, seed: int) -> np.ndarray:
        """From an episode without force."""
        self.steps += self.horizon
        nothing = np.zeros((self.horizon, len(self.space)), np.float32)
        return np.asarray(self._answered(seed, nothing, np.zeros((1, len(self.space)), bool))[1][0])


class HostSimulator(Simulator):
    """A Gymnasium environment, begun anew with ``reset(seed=…)`` for every re-run."""

    def __init__(self, make: Callable[[], Any], horizon: int, policy: Policy | None):
        self.env = make()
        space, network = ActionSpace.of(self.env.action_space), getattr(self.env.unwrapped, "network", None)
        if network is None:
            self.env.reset(seed=0)
            _, reward, *_, info = self.env.step(space.to_environment(np.zeros(len(space), np.float32)))
            network = InfluenceNetwork.complete(len(space), np.size(info.get("vector_reward", reward)))
        super().__init__(space, network, horizon, policy)

    def _episode(self, seed: int, choose: Callable[[int, Any], np.ndarray], steps: int) -> tuple[Any, Any]:
        psi = np.zeros((self.horizon, self.network.shape[1]))
        actions = np.zeros((self.horizon, len(self.space)), np.float32)
        obs, _ = self.env.reset(seed=seed)
        for t in range(steps):
            actions[t] = choose(t, obs)
            obs, reward, terminated, truncated, info = self.env.step(self.space.to_environment(actions[t].copy()))
            psi[t] = np.array(info.get("vector_reward", reward), dtype=float)  # a copy: some write to it again
            self.steps += 1
            if terminated or truncated:
                break
        return psi, actions

    def _answer(self, seed: int, t: int, obs: Any) -> np.ndarray:
        assert self.policy is not None
        return np.asarray(self.policy(jax.random.fold_in(jax.random.key(seed), t), np.asarray(obs, np.float32)))

    def play(self, seed: int, base: np.ndarray | None, forced: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """One after the other."""

        def choose(mask: np.ndarray, t: int, obs: Any) -> np.ndarray:
            return np.where(mask, forced[t], self._answer(seed, t, obs) if base is None else base[t])

        masks = self._components(factors)
        return np.array([self._episode(seed, partial(choose, mask), self.horizon)[0] for mask in masks])

    def play_once(self, seed: int, base: np.ndarray, forced: np.ndarray, factors: np.ndarray, t: int) -> np.ndarray:
        """Of step `t`, which the environment must be led to."""

        def choose(mask: np.ndarray, time: int, obs: Any) -> np.ndarray:
            return np.where(mask & (time == t), forced[t], base[time])

        masks = np.vstack([np.zeros((1, len(self.space)), bool), self._components(factors)])
        return np.array([self._episode(seed, partial(choose, mask), t + 1)[0][t : t + 1] for mask in masks])

    def acted(self, seed: int) -> np.ndarray:
        """From an episode without force."""
        return self._episode(seed, partial(self._answer, seed), self.horizon)[1]

    def close(self) -> None:
        """End the environment."""
        self.env.close()


def simulator_of(problem: Any, horizon: int, policy: Any = None) -> Simulator:
    """The simulator of a JAX `Problem`, or of a function that makes a Gymnasium environment."""
    if horizon < 1:
        raise ValueError(f"horizon: got {horizon}, want at least 1 step")
    if isinstance(problem, Problem):
        return JaxSimulator(problem, horizon, policy_of(policy, traced=True))
    if not callable(problem):
        raise TypeError(
            f"problem: got {type(problem).__name__}, want a Problem, or a function that makes a Gymnasium environment, "
            "as in lambda: gym.make('CartPole-v1')"
        )
    return HostSimulator(problem, horizon, policy_of(policy, traced=False))


def policy_of(policy: Any, *, traced: bool) -> Policy | None:
    """A policy as a function of a key and an observation, from such a function or from a trained `FactoredPPO`."""
    learner = getattr(policy, "learner", None)
    if learner is None:
        if policy is not None and not callable(policy):
            raise TypeError(
                f"policy: got {type(policy).__name__}, want a FactoredPPO, or a function of a JAX key and an "
                "observation that gives a flat action (c,)"
            )
        return policy
    if traced:
        return lambda key, obs: learner.act(policy.state, key, obs[None])[0]
    act = learner.actor(policy.state)
    return lambda key, obs: act(jax.random.key_data(key), np.reshape(obs, (1, -1)))[0]
