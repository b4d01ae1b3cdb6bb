"""Any problem as a VecEnv of Stable-Baselines3 with a row for every factor: its stock PPO, factored."""

import time
import warnings
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from ..learning.collecting import JaxEnvironments
from ..problems.problem import Problem
from ..rollouts import HostEnvironments, Transition
from .views import Factors, Observe

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from stable_baselines3.common.vec_env import VecEnv  # pyright: ignore[reportMissingImports]
except ImportError:  # no dependency: without it the module can still be read and documented
    VecEnv: Any = None
_Base: Any = object if VecEnv is None else VecEnv


def to_stable_baselines3(
    problem: Any,
    network: Any = None,
    *,
    n_envs: int = 8,
    weights: Any = None,
    local: Any = None,
    observe: Observe = "local",
) -> "FactorVecEnv":
    """A problem as a VecEnv of `n_envs` × n rows, one for every factor, all served by one policy.

    **Arguments**

    - `problem`, `network`, `weights`, `local`: as for `FactoredPPO`.
    - `n_envs`: how many copies of the problem are stepped.
    - `observe`: ``"local"``, a row sees its local observation, where the problem has such; ``"global"``: all of it.

    A row sees, besides, which factor it is, one-hot. Its reward is the credit [K(λ∘r)]ᵢ, so that every algorithm of
    Stable-Baselines3 that takes a VecEnv follows the factored gradient, with a policy shared by the factors. These need
    actions of one kind. Stable-Baselines3 has no masks: a factor that did not act learns from its credit all the same.
    """
    if VecEnv is None:
        raise ImportError(
            "to_stable_baselines3 needs Stable-Baselines3: pip install stable-baselines3 (and PyTorch, as you like it)"
        )
    return FactorVecEnv(problem, Factors(problem, network, weights, local, observe), n_envs)


class FactorVecEnv(_Base):
    """What `to_stable_baselines3` makes. Row ``b · n + i`` is factor i of copy b."""

    def __init__(self, problem: Any, factors: Factors, n_envs: int):
        first = factors.spaces[0]
        different = [name for name, space in zip(factors.names, factors.spaces, strict=True) if space != first]
        if different:
            raise ValueError(
                f"problem: factor {different[0]!r} has another action space than factor {factors.names[0]!r}, and one "
                "policy is to serve both; use to_pettingzoo, or group the actions with net.factor(…) into factors alike"
            )
        self.factors, self.n_copies = factors, n_envs
        m = factors.network.shape[1]
        if isinstance(problem, Problem):
            self._copies: Any = JaxEnvironments(problem, n_envs, factors.space)
            self._roll = eqx.filter_jit(
                lambda state, key, actions: self._copies.collect(state, lambda _, obs: actions, key, 1)
            )
        else:
            self._copies = HostEnvironments(problem, n_envs, factors.space, m)
        self._identity = np.broadcast_to(np.eye(factors.n, dtype=np.float32), (n_envs, factors.n, factors.n))
        self._actions: Any = None
        self._state: Any = None
        self._key = jax.random.key(0)
        self._started = time.time()
        size = factors.n_seen + factors.n
        space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        super().__init__(n_envs * factors.n, space, first)

    def reset(self) -> np.ndarray:
        """Begin episodes in all copies; seeded if `seed` was called before."""
        first = self._seeds[0]
        seed = int(np.random.SeedSequence().generate_state(1)[0]) if first is None else first
        if isinstance(self._copies, JaxEnvironments):
            self._key, here = jax.random.split(jax.random.key(seed))
            self._state = self._copies.init(here)
            obs = np.asarray(self._state[1])
        else:
            self._copies.init(seed)
            obs = self._copies.obs
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = [{} for _ in range(self.num_envs)]
        return self._observe(obs)

    def step_async(self, actions: np.ndarray) -> None:
        """Take the actions of all rows."""
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Step all copies; those that end are begun anew, their last observation is in `infos`."""
        factors, B = self.factors, self.n_copies
        given = np.asarray(self._actions, np.float32).reshape(B, factors.n, -1)
        flat = np.empty((B, len(factors.space)), np.float32)
        for i, group in enumerate(factors.groups):
            flat[:, group] = given[:, i]
        seen, after = self._collect(flat)
        ended = np.asarray(seen.terminated[0] | seen.truncated[0])
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        last = self._observe(np.asarray(seen.next_obs[0])) if ended.any() else None
        for b in np.flatnonzero(ended):
            objective = float(np.asarray(seen.episode_psi[0, b], np.float64) @ factors.weights)
            episode = {"r": objective, "l": int(seen.episode_length[0, b]), "t": round(time.time() - self._started, 6)}
            cut = bool(seen.truncated[0, b]) and not bool(seen.terminated[0, b])
            for row in range(b * factors.n, (b + 1) * factors.n):
                infos[row] = {"terminal_observation": last[row], "TimeLimit.truncated": cut, "episode": episode}  # pyright: ignore[reportOptionalSubscript]
        rewards = factors.credit(seen.psi[0]).ravel().astype(np.float32)
        return self._observe(after), rewards, np.repeat(ended, factors.n), infos

    def _collect(self, flat: np.ndarray) -> tuple[Transition, np.ndarray]:
        """One transition of all copies ``[1, B, ...]``, and what they see after it."""
        if isinstance(self._copies, JaxEnvironments):
            self._key, here = jax.random.split(self._key)
            self._state, seen = self._roll(self._state, here, jnp.asarray(flat))
            return jax.tree.map(np.asarray, seen), np.asarray(self._state[1])
        seen = self._copies.collect(lambda obs: flat, 1)
        return seen, self._copies.obs

    def _observe(self, obs: np.ndarray) -> np.ndarray:
        seen = np.concatenate([self.factors.see(obs), self._identity], axis=-1)
        return seen.reshape(self.num_envs, -1).astype(np.float32)

    def close(self) -> None:
        """Close the environments."""
        for env in getattr(self._copies, "envs", ()):
            env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The rows are not environments of their own: they have no more than `render_mode`."""
        if attr_name != "render_mode":
            raise AttributeError(f"the rows of this VecEnv are factors and have no attribute {attr_name!r}")
        return [None for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refused: see `get_attr`."""
        raise AttributeError(f"the rows of this VecEnv are factors; {attr_name!r} cannot be set on them")

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **named: Any) -> list[Any]:
        """Refused: see `get_attr`."""
        raise AttributeError(f"the rows of this VecEnv are factors and have no method {method_name!r}")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """They are not."""
        return [False for _ in self._get_indices(indices)]
