"""Code shared by all views of a problem: its properties, and the combination of the actions of single factors."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import gymnasium as gym
import jax
import numpy as np

from .._checks import checked, shown
from .._credit import credit
from ..problems.problem import Problem
from ..problems.vectors import create
from ..spec import Spec, is_jax
from ..structure import InfluenceNetwork
from ..structure.labels import counted
from ..structure.network import as_network
from .canonical import FactoredEnv

Observe = Literal["local", "global"]


def to_gymnasium(problem: Any) -> gym.Env:
    """Return a problem as a Gymnasium environment with a scalar reward, for any single-agent trainer.

    - `problem`: a JAX `Problem`, or an environment factory (the result is then its environment).

    The vector of targets is in ``info["vector_reward"]``; `network` and `weights` are attributes.

    >>> from factorax.problems import contextual_bandit
    >>> env = to_gymnasium(contextual_bandit(3))
    >>> obs, _ = env.reset(seed=0)
    >>> env.step(obs > 0)[1]
    3.0
    """
    if is_jax(problem):
        return ProblemEnv(problem)
    env: Any = create(problem) if callable(problem) else None
    if not isinstance(env, gym.Env):
        raise TypeError(
            f"problem: got {shown(problem if env is None else env)}, want a Problem or a function that returns a "
            "gymnasium.Env, such as fx.wrap returns"
        )
    return env


class ProblemEnv(FactoredEnv):
    """A compiled JAX problem that runs one episode at a time."""

    def __init__(self, problem: Problem):
        super().__init__(problem)
        self.metadata = {"render_modes": []}
        self.observation_space, self.action_space = problem.observation_space, problem.action_space
        self.describe(problem.network, np.asarray(problem.weights, np.float64), problem.local)
        self._begin, self._advance = jax.jit(problem.reset), jax.jit(problem.step)
        self._state: Any = None

    def _key(self) -> jax.Array:
        return jax.random.key(int(self.np_random.integers(2**32)))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        gym.Env.reset(self, seed=seed)
        self._state, obs = self._begin(self._key())
        return np.array(obs, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the environment with an action."""
        new = self._advance(self._key(), self._state, action)
        self._state = new.state
        psi = np.array(new.psi, np.float64)
        info: dict[str, Any] = {"vector_reward": psi}
        for name in ("factor_mask", "target_terminated"):
            if getattr(new, name) is not None:
                info[name] = np.array(getattr(new, name))
        flags = bool(new.terminated), bool(new.truncated)
        return np.array(new.obs, np.float32), float(self.weights @ psi), *flags, info

    def close(self) -> None:
        """Do nothing: a problem has no resources to close."""


class FactorViews:
    """The factors of a problem one by one: their observations, action spaces and credits."""

    def __init__(
        self, problem: Any, network: Any = None, *, weights: Any = None, local: Any = None, observe: Observe = "local"
    ):
        checked("observe", observe, Observe)
        # bounded="clip": other trainers return actions in the units of the environment.
        self.spec = Spec.of(problem, network, weights=weights, local=local, bounded="clip")
        for part in self.spec.observations.images:
            raise TypeError(
                f"observation space{part.where}: got an image of shape {part.shape}, want vectors, because views for "
                "other trainers have flat observations; train with FactoredPPO, or wrap the environment in "
                "gymnasium.wrappers.FlattenObservation if rows and columns have no meaning"
            )
        hint = "a view does not change; use a point of a schedule, .at(step).network()"
        self.network: InfluenceNetwork = as_network(self.spec.network, "network", hint)
        self.weights, self.space = self.spec.weights, self.spec.components
        self.names, self.n, self.groups = list(self.network.actions), self.spec.n_factors, self.spec.groups
        self._local = jax.jit(self.spec.local) if observe == "local" and self.spec.local is not None else None

    def credit(self, psi: Any) -> np.ndarray:
        """Return [K(λ∘ψ)] of targets ``(..., m)`` in 64 bits."""
        return credit(self.network, np.asarray(psi, np.float64), self.weights)

    def targets(self, reward: Any, info: dict[str, Any]) -> np.ndarray:
        """Return the targets of a step, ``(m,)``: the parts of its reward, or the reward itself."""
        psi, m = np.array(info.get("vector_reward", reward), np.float64).ravel(), self.network.shape[1]
        if psi.size != m:
            got = f'{psi.size} in info["vector_reward"]' if "vector_reward" in info else "only the reward"
            raise ValueError(
                f"problem: a step returned {got}, but the network has {counted(m, 'target')}; want all of them in "
                'info["vector_reward"], or their location: fx.wrap(make, network, reward=…)'
            )
        return psi

    def see(self, obs: np.ndarray) -> np.ndarray:
        """Return the observation of each factor, ``(..., n, l)``, from flat observations ``(..., d)``."""
        if self._local is None:
            return np.repeat(obs[..., None, :], self.n, axis=-2)
        local = np.asarray(self._local(obs))
        if local.shape[-2] == self.n:
            return local
        padded = np.concatenate([local, np.zeros_like(local[..., :1, :])], axis=-2)  # one row per component
        return padded[..., self.spec.seen_by_factor, :].reshape(*local.shape[:-2], self.n, -1)

    @cached_property
    def n_seen(self) -> int:
        """Length of the observation of a factor."""
        return self.see(np.zeros(self.spec.n_inputs, np.float32)).shape[-1]

    @cached_property
    def spaces(self) -> list[gym.Space]:
        """The action space of each factor; choices are numbered from 0."""
        return [self._space(group) for group in self.groups]

    @cached_property
    def joint_space(self) -> gym.Space:
        """The joint action space of all factors, with the components in order."""
        return self._space(np.arange(len(self.space)))

    def _space(self, group: Any) -> gym.Space:
        index = list(group)
        discrete, choices = self.space.discrete[index], self.space.choices[index]
        if not discrete.any():
            return gym.spaces.Box(self.space.low[index], self.space.high[index], dtype=np.float32)
        if discrete.all():
            return gym.spaces.Discrete(int(choices[0])) if len(choices) == 1 else gym.spaces.MultiDiscrete(choices)
        return gym.spaces.Tuple([self._space([k]) for k in group])

    def together(self, actions: Sequence[Any]) -> np.ndarray:
        """Return the flat action ``(c,)`` that combines the actions of the factors."""
        row = np.empty(len(self.space), np.float32)
        for group, action in zip(self.groups, actions, strict=True):
            row[group] = np.concatenate([np.ravel(part) for part in action]) if isinstance(action, tuple) else action
        return row
