"""The observations of all agents of a PettingZoo environment as one observation."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from ..observations import ObservationSpace
from .canonical import flat_observations, own_observations


def agent_observations(spaces: Mapping[Any, gym.Space]) -> "Padded | ByAgent":
    """Return how to combine the observations of agents with these spaces: as one vector, or as a Dict if there are
    images, which keep their shape."""
    has_images = [bool(ObservationSpace.of(space).images) for space in spaces.values()]
    return ByAgent(spaces) if any(has_images) else Padded(spaces)


class Padded:
    """Concatenates the observations of agents, each flattened and padded with zeros to the longest; zeros for agents
    without one."""

    def __init__(self, spaces: Mapping[Any, gym.Space]):
        flattened = {agent: flat_observations(space) for agent, space in spaces.items()}
        self._observers = {agent: observe for agent, (_, observe) in flattened.items()}
        boxes = [box for box, _ in flattened.values()]
        self._length = max(int(np.prod(box.shape)) for box in boxes)
        low, high = np.zeros((2, len(boxes), self._length), np.float32)
        for i, box in enumerate(boxes):
            size = int(np.prod(box.shape))
            low[i, :size], high[i, :size] = np.minimum(box.low.ravel(), 0), np.maximum(box.high.ravel(), 0)
        self.space: gym.Space = gym.spaces.Box(low.ravel(), high.ravel(), dtype=np.float32)

    def __call__(self, obs: Mapping[Any, Any]) -> np.ndarray:
        """Return the combined observation as a new array, ``(d,)``."""
        out = np.zeros((len(self._observers), self._length), np.float32)
        for i, (agent, observe) in enumerate(self._observers.items()):
            if agent in obs:
                row = observe(obs[agent]).ravel()
                out[i, : row.size] = row
        return out.ravel()

    def local(self, agent_of: Sequence[int]) -> Callable[[Any], Any]:
        """Return the function from combined observations to that of one agent for each row of the network."""
        n, length, index = len(self._observers), self._length, np.asarray(agent_of)

        def its_own(obs: Any) -> Any:
            return obs.reshape(*obs.shape[:-1], n, length)[..., index, :]

        return its_own


class ByAgent:
    """A Dict of the observations of agents in their own spaces, which are extended to include the zeros of agents
    without an observation."""

    def __init__(self, spaces: Mapping[Any, gym.Space]):
        self._names = {agent: str(agent) for agent in spaces}
        self._observers = {agent: own_observations(space)[1] for agent, space in spaces.items()}
        with_zeros = OrderedDict((self._names[agent], _with_zeros(space)) for agent, space in spaces.items())
        self.space: gym.Space = gym.spaces.Dict(with_zeros)
        self._spaces = with_zeros

    def __call__(self, obs: Mapping[Any, Any]) -> dict[str, Any]:
        """Return the combined observation as a dict by name of the agent."""
        return {
            name: self._observers[agent](obs[agent]) if agent in obs else _zeros(self._spaces[name])
            for agent, name in self._names.items()
        }

    def local(self, agent_of: Sequence[int]) -> None:
        """Return None: local observations are vectors, and images would lose their shape."""
        return


def _with_zeros(space: gym.Space) -> gym.Space:
    """Return the space with bounds that include zero."""
    match space:
        case gym.spaces.Dict():
            return gym.spaces.Dict(OrderedDict((name, _with_zeros(part)) for name, part in space.spaces.items()))
        case gym.spaces.Tuple():
            return gym.spaces.Tuple([_with_zeros(part) for part in space.spaces])
        case gym.spaces.Box():
            low, high = np.minimum(space.low, 0), np.maximum(space.high, 0)
            return gym.spaces.Box(low.astype(space.dtype), high.astype(space.dtype), dtype=space.dtype.type)
    return space


def _zeros(space: gym.Space) -> Any:
    """Return the element with zeros, or with the first choices."""
    match space:
        case gym.spaces.Dict():
            return {name: _zeros(part) for name, part in space.spaces.items()}
        case gym.spaces.Tuple():
            return tuple(_zeros(part) for part in space.spaces)
        case gym.spaces.Discrete():
            return space.start
        case gym.spaces.MultiDiscrete():
            return space.start.copy()
    return np.zeros(space.shape or (), space.dtype)
