"""The form in which environments reach the learner: a scalar reward, with its parts in `info`."""

import abc
import copy
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from .._text import counted, shown
from ..observations import ObservationSpace
from ..rollouts.step_checks import check_step, checked_reset, checked_step, flag, real_numbers
from ..spaces import sample_valid
from ..structure import InfluenceNetwork
from .rewards import Parts

_FLOAT64 = np.dtype(np.float64)
Places = tuple[tuple[str, int, int], ...]
"""For each observed path into `info`: the path, and the start and end of its numbers in the observation."""


class FactoredEnv(gym.Env, abc.ABC):
    """A Gymnasium environment whose reward is ``weights @ info["vector_reward"]``, summed in 64 bits.

    It is its own `unwrapped`, so standard wrappers and vectorisers keep its attributes. `info` may have
    ``"factor_mask"`` ``(n,)``, the factors that acted, and ``"target_terminated"`` ``(m,)``, the targets that have
    ended.
    """

    env: Any
    """The wrapped environment."""
    network: InfluenceNetwork
    """The influence network from factors to targets."""
    network_is_given: bool = False
    """Whether the network was passed by the user (or its absence warned of) rather than declared by the environment."""
    has_no_network: bool = False
    """Whether there is no network, so that each action is credited with all targets."""
    weights: np.ndarray
    """The weights λ, ``(m,)``."""
    local: Callable[[Any], Any] | None
    """Maps observations ``(..., d)`` to local observations, ``(..., n, l)``, if the environment defines them."""
    observed_info: Places = ()
    """Positions of numbers from `info` in the observation."""
    reward_space: gym.spaces.Box
    """Space of the vector of targets, as in MO-Gymnasium."""

    def __init__(self, env: Any):
        if not hasattr(env, "action_space"):
            raise TypeError(f"env: got {shown(env)}, want an environment with spaces and methods reset and step")
        self.env = env
        self.metadata = dict(getattr(env, "metadata", {}))
        self.render_mode = getattr(env, "render_mode", None)

    def describe(
        self: Any, network: InfluenceNetwork, weights: np.ndarray, local: Any, reward_space: Any = None
    ) -> None:
        """Set the network, λ, the function of local observations, and the bounds of the targets."""
        m = network.shape[1]
        self.network, self.weights, self.local, self.reward_dim = network, weights, local, m
        low, high = (-np.inf, np.inf) if reward_space is None else (reward_space.low, reward_space.high)
        low, high = (np.broadcast_to(np.asarray(bound, np.float64), (m,)) for bound in (low, high))
        self.reward_space = gym.spaces.Box(low, high, dtype=np.float64)

    def render(self) -> Any:
        """Render the environment."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def __repr__(self) -> str:
        n, m = self.network.shape
        return f"<FactoredEnv of {counted(n, 'factor')} and {counted(m, 'target')} around {self.env}>"

    __str__ = __repr__


class FactoredGymnasium(FactoredEnv):
    """A Gymnasium or MO-Gymnasium environment wrapped by `factorax.wrap`."""

    observed_entries: tuple[gym.spaces.Box, ...] = ()
    """Spaces of the entries of `info` that this wrapper adds to the observation."""

    def __init__(
        self,
        env: gym.Env,
        parts: Parts,
        observation_space: gym.Space,
        observe: Callable[[Any, Any], Any],
        *,
        check_sum: bool,
    ):
        """Wrap an environment; `observe` combines its observations with its `info`."""
        super().__init__(env)
        self.parts, self._read, self._check_sum = parts, parts.read, check_sum
        self._time = 0
        self.action_space = env.action_space
        self.observation_space, self._observe = observation_space, observe

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        self._time = 0
        obs, info = checked_reset(self.env, seed=seed, options=options)
        return self._observe(obs, info), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step with a copy of the action, since some environments modify it."""
        self._time += 1
        returned = self.env.step(copied(action))
        if type(returned) is not tuple or len(returned) != 5 or not isinstance(returned[4], dict):
            check_step(returned)
        obs, reward, terminated, truncated, info = returned
        psi = self.read(obs, action, reward, info)
        weights = self.weights
        if psi.shape != weights.shape:
            raise ValueError(
                f"reward: step {self._time} of the episode gave {counted(psi.size, 'part')}, want {weights.size}, one "
                "per column of the network; the number of targets must be the same in each step"
            )
        total = float(weights @ psi)
        self.check_sum(total, reward, psi)
        ended = terminated if type(terminated) is bool else flag("terminated", terminated)
        cut = truncated if type(truncated) is bool else flag("truncated", truncated)
        return self._observe(obs, info), total, ended, cut, {**info, "vector_reward": psi}

    def first_step(self) -> tuple[np.ndarray, Any]:
        """Return the targets and the reward of one step."""
        # Seeding the space of the environment would change the actions that the user samples from it.
        space = copy.deepcopy(self.action_space)
        space.seed(0)
        obs, info = self.reset(seed=0)
        action = sample_valid(space, obs, info)
        self._time = 1
        obs, reward, _, _, info = checked_step(self.env, copied(action))
        return self.read(obs, action, reward, info), reward

    def read(self, obs: Any, action: Any, reward: Any, info: Any) -> np.ndarray:
        """Return the vector of targets as a new array, since some packages reuse theirs."""
        try:
            values = self._read(obs, action, reward, info)
            numbers = np.array(values)
            if numbers.dtype is not _FLOAT64:
                numbers = real_numbers("reward", values).astype(np.float64)
            return numbers.ravel()
        except (TypeError, ValueError) as error:
            error.add_note(f"in step {self._time} of the episode")
            raise

    def check_sum(self, total: float, reward: Any, psi: np.ndarray) -> None:
        """Raise if the parts do not add up to the environment's scalar reward, if it has one and the check is on."""
        if not self._check_sum or np.ndim(reward) > 0:
            return
        # Relative to the sizes of the parts: large ones may cancel, and leave the rounding of each in a small sum.
        apart = abs(total - float(reward))
        if apart > 1e-6 * abs(total) and apart > 1e-8 + 1e-4 * float(np.abs(self.weights * psi).sum()):
            raise not_adding_up(f"{self._time} of the episode", "the environment", reward, total, psi, self.weights)


def not_adding_up(step: str, of: str, reward: Any, total: float, psi: np.ndarray, weights: np.ndarray) -> ValueError:
    """Return the error for parts of a reward that do not add up to it."""
    return ValueError(
        f"reward: the parts do not add up. In step {step} the reward of {of} is {float(reward):.6g}, but weights @ "
        f"parts = {total:.6g}, of parts {np.array2string(psi, precision=4)} and weights "
        f"{np.array2string(weights, precision=4)}. Add the missing parts, or pass the weights of the environment as "
        "weights=…; with check_sum=False the weighted sum becomes the objective"
    )


def own_observations(space: gym.Space) -> tuple[gym.Space, Callable[[Any], Any]]:
    """Return the observation space, and a function that copies an observation, so that the environment cannot
    change it."""
    if not isinstance(space, gym.spaces.Box):
        ObservationSpace.of(space)  # raises if observations have no fixed size
        return space, copied
    dtype = space.dtype
    return space, lambda obs: np.array(
        obs if type(obs) is np.ndarray and obs.dtype is dtype else real_numbers("observation", obs), dtype
    )


def flat_observations(space: gym.Space) -> tuple[gym.spaces.Box, Callable[[Any], np.ndarray]]:
    """Return the space of flattened observations, and a function that flattens one into a new array.

    Raises TypeError for images, which would lose their shape, and for observations without a fixed size.
    """
    ObservationSpace.of(space).check_no_images()
    if isinstance(space, gym.spaces.Box):
        return own_observations(space)  # type: ignore[return-value]
    flat = gym.spaces.flatten_space(space)
    assert isinstance(flat, gym.spaces.Box)  # as are all that have an `ObservationSpace`
    dtype = flat.dtype
    return flat, lambda obs: np.asarray(gym.spaces.flatten(space, obs), dtype)


def copied(element: Any) -> Any:
    """Return a copy of an action or an observation, including its arrays."""
    if isinstance(element, np.ndarray):
        return element.copy()
    if isinstance(element, dict):
        return {name: copied(part) for name, part in element.items()}
    return tuple(copied(part) for part in element) if isinstance(element, tuple) else element
