"""Vector environments in the form that the learner expects: rewards, with their parts in `info`, in rows."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from .._text import counted
from ..observations import ObservationSpace
from ..problems.vectors import SEED_PER_ENV, autoreset_mode, takes_seeds
from ..rollouts.step_checks import (
    check_step,
    checked_reset,
    checked_step,
    flags,
    last_observations,
    target_rows,
    with_final,
)
from ..structure import InfluenceNetwork
from .canonical import FactoredEnv, Places, copied, not_adding_up, own_observations
from .rewards import Parts


class FactoredVector(VectorEnv):
    """A vector environment with rewards ``info["vector_reward"] @ weights``, as returned by `factorax.wrap`.

    ``info["vector_reward"]`` ``(N, m)`` has the targets of the step for each environment in all autoreset modes; rows
    of environments that a call only reset are zeros.
    """

    network: InfluenceNetwork
    has_no_network = network_is_given = False
    weights: np.ndarray
    local: Callable[[Any], Any] | None
    expected: int | None = None
    """Number of targets that is known before the weights; None if the first step tells it."""
    observed_info: Places = ()
    reward_space: gym.spaces.Box

    def __init__(self, env: VectorEnv, parts: Parts, *, check_sum: bool):
        self.env, self.parts, self._check_sum = env, parts, check_sum
        self.mode = autoreset_mode(env)
        self.metadata = dict(env.metadata) | {SEED_PER_ENV: takes_seeds(env)}
        self.num_envs, self.render_mode, self.spec = env.num_envs, env.render_mode, env.spec
        self.single_action_space, self.action_space = env.single_action_space, env.action_space
        self.single_observation_space, self._copied = own_observations(env.single_observation_space)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self._observations = ObservationSpace.of(self.single_observation_space)
        self._ended = np.zeros(self.num_envs, bool)
        self._time = 0

    describe = FactoredEnv.describe

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start episodes in all environments, or in those of ``options["reset_mask"]``."""
        marked = None if options is None else options.get("reset_mask")
        self._ended = np.zeros(self.num_envs, bool) if marked is None else self._ended & ~np.asarray(marked)
        obs, info = checked_reset(self.env, seed=seed, options=options)
        return self._rows(obs), info

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all environments with a copy of the actions."""
        self._time += 1
        n = self.num_envs
        returned = self.env.step(copied(actions))
        check_step(returned)
        obs, reward, terminated, truncated, info = returned
        terminated, truncated = flags("terminated", terminated, n), flags("truncated", truncated, n)
        over = terminated | truncated
        resets = self._ended if self.mode is AutoresetMode.NEXT_STEP and self._ended.any() else None
        obs, of_step = self._rows(obs), with_final(info, n)
        after = obs
        if self.mode is AutoresetMode.SAME_STEP and over.any():
            ended, final = np.flatnonzero(over), np.full(n, None, object)
            for i in ended:
                final[i] = self._copied(info["final_obs"][i]) if "final_obs" in info else None
            info = dict(info) | ({"final_obs": final} if "final_obs" in info else {})
            after = self._with_last(obs, info, ended)
        psi = self.read(after, actions, reward, of_step, resets)
        total = psi @ self.weights
        self.check_sum(total, reward, psi, resets)
        # A call that only resets an environment returns no end of it, whatever its flags say.
        self._ended = over if resets is None else over & ~resets
        info = {**info, "vector_reward": psi, "_vector_reward": np.ones(n, bool)}
        if isinstance(info.get("final_info"), Mapping):  # its targets are already merged with the others
            final = {k: v for k, v in info["final_info"].items() if k not in ("vector_reward", "_vector_reward")}
            info["final_info"] = final
        return obs, total, terminated, truncated, info

    def read(self, obs: Any, actions: Any, reward: Any, info: Any, resets: np.ndarray | None = None) -> np.ndarray:
        """Return the targets of a step as a new array ``(N, m)``."""
        if resets is not None and resets.all():  # there is no transition
            return np.zeros((self.num_envs, self.weights.size))
        try:
            values = self.parts.read(obs, actions, reward, info, resets)
            m = self.weights.size if hasattr(self, "weights") else self.expected
            psi = target_rows(values, self.num_envs, m).astype(np.float64)
        except (TypeError, ValueError) as error:
            error.add_note(f"in step {self._time} of the vector environment")
            raise
        if resets is not None:
            psi[resets] = 0.0
        return psi

    def check_sum(self, total: np.ndarray, reward: Any, psi: np.ndarray, resets: np.ndarray | None = None) -> None:
        """Raise if the parts do not add up to the vector's scalar rewards, if it has them and the check is on."""
        if not self._check_sum or np.shape(reward) != (self.num_envs,):
            return
        rewards = np.asarray(reward, np.float64)
        apart, scale = np.abs(total - rewards), np.abs(self.weights * psi).sum(axis=1)
        wrong = (apart > 1e-6 * np.abs(total)) & (apart > 1e-8 + 1e-4 * scale)
        if resets is not None:
            wrong &= ~resets
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            raise not_adding_up(str(self._time), f"environment {i}", rewards[i], total[i], psi[i], self.weights)

    def _rows(self, obs: Any) -> Any:
        """Return the observations of all environments in new arrays ``(N, ...)``, in the structure of their space."""
        return copied(obs) if self._observations.is_compound else np.array(obs)

    def _with_last(self, obs: Any, info: Mapping[str, Any], ended: np.ndarray) -> Any:
        """Return new observations of all environments with the last ones of ended episodes."""
        last = last_observations(info, ended, self._observations)
        if not self._observations.is_compound:
            after = obs.copy()
            after[ended] = last.reshape(-1, *after.shape[1:])
            return after
        of_one, elements = self.single_observation_space, list(iterate(self.observation_space, obs))
        for i in ended:
            elements[i] = info["final_obs"][i]
        return concatenate(of_one, elements, create_empty_array(of_one, self.num_envs))

    def first_step(self) -> tuple[np.ndarray, Any]:
        """Return the targets and the rewards of one step."""
        space = copy.deepcopy(self.action_space)
        space.seed(0)
        self.reset(seed=0)
        actions = space.sample()
        self._time = 1
        obs, reward, _, _, info = checked_step(self.env, copied(actions))
        return self.read(self._rows(obs), actions, reward, with_final(info, self.num_envs)), reward

    def render(self) -> Any:
        """Render all environments."""
        return self.env.render()

    def close_extras(self, **kwargs: Any) -> None:
        """Close the vector."""
        self.env.close(**kwargs)

    def __repr__(self) -> str:
        n, m = self.network.shape
        return f"<FactoredVector of {counted(n, 'factor')} and {counted(m, 'target')} around {self.env}>"
