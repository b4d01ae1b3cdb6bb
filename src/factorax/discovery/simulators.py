"""Simulators that can be run again from a seed: the same random numbers, other actions.

Actions are flat, ``(c,)``, in the units of the environment: those of an `ActionSpace` with ``bounded="clip"``. A
*policy* is a function of a JAX key and an observation ``(d,)`` that gives one; a trained `FactoredPPO` will do.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces.utils import flatten_space

from .._checks import Count, Seed, shown
from ..problems.problem import Problem
from ..problems.vectors import is_vector
from ..spaces import ActionSpace
from ..spec import Spec, check_callable, declared_network, is_jax
from ..structure import InfluenceNetwork

ActingFunction = Callable[[Any, Any], Any]
RATES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""How often an action sequence leaves the value that it mostly has: held for long, or new at every step."""

SIDE_BY_SIDE = 8
OPTIONS = {"horizon": Count, "trials": Count, "groups": bool, "one_step": bool, "seed": Seed}
"""What the options of interventions may be."""
"""Re-runs of a JAX problem in one call."""


class Simulator(ABC):
    """A simulator with n factors, m targets and episodes of `horizon` steps; `steps` counts those simulated."""

    network: InfluenceNetwork
    """A network with the right shape and labels; its edges are not used."""

    def __init__(self, spec: Spec, horizon: int, policy: ActingFunction | None):
        self.space, self.network = spec.components, spec.network.static
        self.horizon, self.policy, self.steps = horizon, policy, 0
        self.factor_of = np.arange(len(self.space)) if spec.factors is None else spec.factors

    def close(self) -> None:
        """End what is open."""
        return

    @abstractmethod
    def play(self, seed: int, base: np.ndarray | None, forced: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Targets ``(B, T, m)`` of an episode for each of B sets of factors, booleans ``(B, n)``.

        Those factors do what is `forced`, ``(T, c)``; the others what they did in `base`, ``(T, c)``, or, if that is
        None, what the policy answers. Targets are 0 after the end of the episode.
        """

    @abstractmethod
    def play_once(self, seed: int, base: np.ndarray, forced: np.ndarray, factors: np.ndarray, t: int) -> np.ndarray:
        """Targets ``(B, T, m)`` of single steps, each from the state that `base` leads to, with and without force: of
        all T steps where states can be kept, else of step `t` alone, T = 1. The first row is without."""

    @abstractmethod
    def acted(self, seed: int) -> np.ndarray:
        """The actions of the policy in an episode without intervention, ``(T, c)``."""

    def sequence(self, rng: np.random.Generator, *, alike: bool) -> np.ndarray:
        """Actions ``(T, c)`` of many kinds: held for the whole episode, changed now and then, or new at every step; one
        draw per component, or the same for all if `alike`, which influence over long distances may need."""
        size = 1 if alike else len(self.space)
        mostly, other = (self._draw(rng, (steps, size)) for steps in (1, self.horizon))
        leaves = rng.random((self.horizon, size)) < rng.choice(RATES, size)
        return np.where(leaves, other, mostly).astype(np.float32)

    def unlike(self, base: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Actions as of `sequence`, of which each component differs from `base` in at least one step. Each has its own:
        what two components do alike may cancel."""
        other = self.sequence(rng, alike=False)
        for c in np.flatnonzero((other == base).all(axis=0)):
            choices = int(self.space.choices[c])
            t = rng.integers(len(base))
            if choices > 1:
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
        return np.where(space.discrete, np.floor(rng.random(shape) * space.choices), drawn)

    def _components(self, factors: np.ndarray) -> np.ndarray:
        return np.asarray(factors, bool)[:, self.factor_of]


class JaxSimulator(Simulator):
    """A pure-JAX problem; the re-runs of a call are batched."""

    def __init__(self, problem: Problem, horizon: int, policy: ActingFunction | None):
        super().__init__(Spec.of(problem, bounded="clip"), horizon, policy)
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
        policy: ActingFunction = self.policy

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

            # One after the other: a matrix product may round differently in another row of a batch.
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
        """Play the re-runs in batches of `SIDE_BY_SIDE`."""
        self.steps += len(factors) * self.horizon
        if base is None:
            return self._in_chunks(lambda mask: self._answered(seed, forced, mask)[0], factors)
        return self._in_chunks(lambda mask: self._replayed(seed, base, forced, mask), factors)

    def play_once(self, seed: int, base: np.ndarray, forced: np.ndarray, factors: np.ndarray, t: int) -> np.ndarray:
        """Play every step with and without force."""
        self.steps += (len(factors) + 1) * self.horizon
        with_empty = np.vstack([np.zeros((1, factors.shape[1]), bool), factors])
        return self._in_chunks(lambda mask: self._once(seed, base, forced, mask), with_empty)

    def _in_chunks(self, run: Callable[[np.ndarray], jax.Array], factors: np.ndarray) -> np.ndarray:
        """Run in chunks of one size, the last one padded with empty sets, so that only one program is compiled."""
        filled = np.vstack([factors, np.zeros((-len(factors) % SIDE_BY_SIDE, factors.shape[1]), bool)])
        chunks = np.split(self._components(filled), len(filled) // SIDE_BY_SIDE)
        return np.concatenate([np.asarray(run(chunk)) for chunk in chunks])[: len(factors)]

    def acted(self, seed: int) -> np.ndarray:
        """Play an episode without force and return its actions."""
        self.steps += self.horizon
        nothing = np.zeros((self.horizon, len(self.space)), np.float32)
        return np.asarray(self._answered(seed, nothing, np.zeros((1, len(self.space)), bool))[1][0])


class HostSimulator(Simulator):
    """A Gymnasium environment, reset with ``reset(seed=…)`` for every re-run."""

    def __init__(self, make: Callable[[], Any], horizon: int, policy: ActingFunction | None):
        self.env = make()
        if is_vector(self.env):
            self.env.close()
            raise TypeError(
                f"problem: got a function that makes a vector of environments, {type(self.env).__name__}, and "
                "interventions replay one episode at a time; want a function that makes one gymnasium.Env"
            )
        space, network = ActionSpace.of(self.env.action_space, bounded="clip"), declared_network(self.env)
        if network is None:
            self.env.reset(seed=0)
            _, reward, *_, info = self.env.step(space.to_environment(np.zeros(len(space), np.float32)))
            network = InfluenceNetwork.complete(len(space), np.size(info.get("vector_reward", reward)))
        observations = flatten_space(self.env.observation_space)  # only a policy looks at them
        spec = Spec.of_spaces(observations, self.env.action_space, network, bounded="clip")
        super().__init__(spec, horizon, policy)

    def _episode(self, seed: int, choose: Callable[[int, Any], np.ndarray], steps: int) -> tuple[Any, Any]:
        psi = np.zeros((self.horizon, self.network.shape[1]))
        actions = np.zeros((self.horizon, len(self.space)), np.float32)
        obs, _ = self.env.reset(seed=seed)
        for t in range(steps):
            actions[t] = choose(t, obs)
            obs, reward, terminated, truncated, info = self.env.step(self.space.to_environment(actions[t].copy()))
            psi[t] = np.array(info.get("vector_reward", reward), dtype=float)  # a copy: some environments overwrite it
            self.steps += 1
            if terminated or truncated:
                break
        return psi, actions

    def _answer(self, seed: int, t: int, obs: Any) -> np.ndarray:
        assert self.policy is not None
        return np.asarray(self.policy(jax.random.fold_in(jax.random.key(seed), t), np.asarray(obs, np.float32)))

    def play(self, seed: int, base: np.ndarray | None, forced: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Play the re-runs one after the other."""

        def choose(mask: np.ndarray, t: int, obs: Any) -> np.ndarray:
            return np.where(mask, forced[t], self._answer(seed, t, obs) if base is None else base[t])

        masks = self._components(factors)
        return np.array([self._episode(seed, partial(choose, mask), self.horizon)[0] for mask in masks])

    def play_once(self, seed: int, base: np.ndarray, forced: np.ndarray, factors: np.ndarray, t: int) -> np.ndarray:
        """Play step `t` alone; every re-run has to play the steps before it."""

        def choose(mask: np.ndarray, time: int, obs: Any) -> np.ndarray:
            return np.where(mask & (time == t), forced[t], base[time])

        masks = np.vstack([np.zeros((1, len(self.space)), bool), self._components(factors)])
        return np.array([self._episode(seed, partial(choose, mask), t + 1)[0][t : t + 1] for mask in masks])

    def acted(self, seed: int) -> np.ndarray:
        """Play an episode without force and return its actions."""
        return self._episode(seed, partial(self._answer, seed), self.horizon)[1]

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


def simulator_of(problem: Any, horizon: int, policy: Any = None) -> Simulator:
    """The simulator of a JAX `Problem`, or of a function that makes a Gymnasium environment."""
    if horizon < 1:
        raise ValueError(f"horizon: got {horizon}, want at least 1 step")
    if is_jax(problem):
        return JaxSimulator(problem, horizon, policy_of(policy, traced=True))
    check_callable(problem)
    return HostSimulator(problem, horizon, policy_of(policy, traced=False))


def check_forgetful(policy: Any) -> None:
    """Raise ValueError for a trained model whose policy remembers: discovery calls it with single observations."""
    if policy.state.agent.policy.memory:
        raise ValueError(
            f"policy: got a model with architecture={policy.config.architecture!r}, whose policy remembers the "
            "episode; want one that does not, such as architecture='mlp'"
        )


def policy_of(policy: Any, *, traced: bool) -> ActingFunction | None:
    """A policy as a function of a key and an observation, from such a function or from a trained `FactoredPPO`."""
    learner = getattr(policy, "learner", None)
    if learner is None:
        if policy is not None and not callable(policy):
            raise TypeError(
                f"policy: got {shown(policy)}, want a FactoredPPO, or a function of a JAX key and an "
                "observation that gives a flat action (c,)"
            )
        return policy
    check_forgetful(policy)
    # Simulators clip actions to the bounds of the space; a learner may get them there in another way.
    within = learner.spec.components.within
    if traced:
        return lambda key, obs: within(learner.act(policy.state, key, obs[None])[0], jnp)
    act = policy.program.compiled_act(policy.state)
    return lambda key, obs: within(act(jax.random.key_data(key), np.reshape(obs, (1, -1)))[0], np)
