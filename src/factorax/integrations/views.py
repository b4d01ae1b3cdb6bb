"""Code shared by all views of a problem: its properties, and the combination of the actions of single factors."""

from collections.abc import Sequence
from typing import Any, Literal

import gymnasium as gym
import jax
import numpy as np

from .._checks import checked
from .._credit import credit
from .._text import counted, shown
from ..problems.problem import Problem
from ..problems.vectors import create
from ..spec import Spec, is_jax
from ..structure import InfluenceNetwork
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
        # Compiled once for all episodes: a step without compilation takes hundreds of operations.
        self._jit_reset, self._jit_step = jax.jit(problem.reset), jax.jit(problem.step)
        self._state: Any = None

    def _key(self) -> jax.Array:
        # From Gymnasium's generator, which `reset(seed=…)` seeds.
        return jax.random.key(int(self.np_random.integers(2**32)))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        gym.Env.reset(self, seed=seed)
        self._state, obs = self._jit_reset(self._key())
        return np.array(obs, np.float32), {}  # a copy: arrays of JAX are read-only

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the environment with an action."""
        new = self._jit_step(self._key(), self._state, action)
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
    """The factors of a problem one by one: their observations, action spaces and credits.

    - `observe`: ``"local"``: a factor receives its local observation if the problem has one; ``"global"``: all of it.
    - `identity`: whether to append the index of the factor, one-hot, for a policy shared by all factors.
    """

    def __init__(
        self,
        problem: Any,
        network: Any = None,
        *,
        weights: Any = None,
        local: Any = None,
        observe: Observe = "local",
        identity: bool = False,
    ):
        checked("observe", observe, Observe)
        # clip: other trainers return actions in the units of the environment.
        self.spec = Spec.of(problem, network, weights=weights, local=local, distribution="clip")
        for part in self.spec.observations.images:
            raise TypeError(
                f"observation space{part.where}: got an image of shape {part.shape}, want vectors, because views for "
                "other trainers have flat observations; train with FactoredPPO, or wrap the environment in "
                "gymnasium.wrappers.FlattenObservation if rows and columns have no meaning"
            )
        hint = "a view does not change; use a point of a schedule, .at(step).network()"
        self.network: InfluenceNetwork = as_network(self.spec.network, "network", hint)
        self.weights, self.components = self.spec.weights, self.spec.components
        self.names, self.n, self.groups = list(self.network.actions), self.spec.n_factors, self.spec.groups
        self._local = jax.jit(self.spec.local) if observe == "local" and self.spec.local is not None else None
        self._identity = np.eye(self.n, dtype=np.float32) if identity else np.zeros((self.n, 0), np.float32)
        size = self.observe(np.zeros(self.spec.n_inputs, np.float32)).shape[-1]
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        """The observation space of each factor."""
        self.action_spaces = [self._space(group) for group in self.groups]
        """The action space of each factor; choices are numbered from 0."""

    def credit(self, psi: Any) -> np.ndarray:
        """Return [K(λ∘ψ)] of targets ``(..., m)``."""
        # In 64 bits, as environments return rewards: their sum over an episode is compared with its return.
        return credit(self.network, np.asarray(psi, np.float64), self.weights)

    def observe(self, obs: np.ndarray) -> np.ndarray:
        """Return the observation of each factor, ``(..., n, l)``, from flat observations ``(..., d)``."""
        if self._local is None:
            rows = np.repeat(obs[..., None, :], self.n, axis=-2)
        else:
            rows = np.asarray(self._local(obs))
            if rows.shape[-2] != self.n:  # one row per component; the factors have those of theirs, padded with zeros
                padded = np.concatenate([rows, np.zeros_like(rows[..., :1, :])], axis=-2)
                rows = padded[..., self.spec.components_of_factor, :].reshape(*rows.shape[:-2], self.n, -1)
        identity = np.broadcast_to(self._identity, (*rows.shape[:-1], self._identity.shape[1]))
        return np.concatenate([rows, identity], axis=-1, dtype=np.float32)

    def joint_space(self) -> gym.Space:
        """Return the joint action space of all factors, with the components in order."""
        return self._space(np.arange(len(self.components)))

    def _space(self, group: Any) -> gym.Space:
        index, components = list(group), self.components
        discrete, choices = components.discrete[index], components.choices[index]
        if not discrete.any():
            return gym.spaces.Box(components.low[index], components.high[index], dtype=np.float32)
        if discrete.all():
            return gym.spaces.Discrete(int(choices[0])) if len(choices) == 1 else gym.spaces.MultiDiscrete(choices)
        return gym.spaces.Tuple([self._space([k]) for k in group])

    def join(self, actions: Sequence[Any]) -> np.ndarray:
        """Return the flat action ``(c,)`` that combines the actions of the factors."""
        row = np.empty(len(self.components), np.float32)
        for group, action in zip(self.groups, actions, strict=True):
            row[group] = flat_action(action)
        return row


def flat_action(action: Any) -> np.ndarray:
    """Return the components of an action of an `action_space` above: one array, or a tuple of single components."""
    return np.concatenate([np.ravel(part) for part in action]) if isinstance(action, tuple) else np.ravel(action)


def step_targets(network: InfluenceNetwork, reward: Any, info: dict[str, Any]) -> np.ndarray:
    """Return the targets of a step, ``(m,)``: the parts of its reward, or the reward itself."""
    psi, m = np.array(info.get("vector_reward", reward), np.float64).ravel(), network.shape[1]
    if psi.size != m:
        got = f'{psi.size} in info["vector_reward"]' if "vector_reward" in info else "only the reward"
        raise ValueError(
            f"problem: a step returned {got}, but the network has {counted(m, 'target')}; want all of them in "
            'info["vector_reward"], or their location: fx.wrap(make, network, reward=…)'
        )
    return psi
