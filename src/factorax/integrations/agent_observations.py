"""The observations of all agents of a PettingZoo environment as one observation."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from .._text import counted
from ..distributions import Categorical
from ..observations import ObservationSpace
from ..spaces import ActionSpace
from .canonical import flat_observations, own_observations
from .info_observations import OWN

MASK = "action_mask"


def agent_observations(
    spaces: Mapping[Any, gym.Space], action_spaces: Mapping[Any, gym.Space]
) -> "Padded | ByAgent | Masked":
    """Return how to combine the observations of agents with these spaces: as one vector, or as a Dict if there are
    images, which keep their shape, or masks of valid actions."""
    dicts = {agent: space for agent, space in spaces.items() if isinstance(space, gym.spaces.Dict)}
    masked = {agent: space for agent, space in dicts.items() if MASK in space.spaces}
    if masked:
        return Masked(spaces, action_spaces, masked)
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
        return lambda obs: obs.reshape(*obs.shape[:-1], n, length)[..., index, :]


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


class Masked:
    """Adds an ``action_mask`` with one number per choice of all agents, from the entries of the same name in the
    observations of the agents. The rest is combined as without masks; it is called ``observation`` if it is a vector.

    All choices are valid for agents that are dead or have no mask.
    """

    def __init__(
        self,
        spaces: Mapping[Any, gym.Space],
        action_spaces: Mapping[Any, gym.Space],
        masked: Mapping[Any, gym.spaces.Dict],
    ):
        """Combine the observations of all agents, of which some are `masked`."""
        self._masked, self._sizes = frozenset(masked), {}
        for agent, space in action_spaces.items():
            components = ActionSpace.of(space)
            self._sizes[agent] = size = int(components.choices[np.array(components.kinds) == Categorical.name].sum())
            got = int(np.prod(masked[agent][MASK].shape or ())) if agent in masked else size
            if got != size:
                raise ValueError(
                    f"observation space of {agent!r}: its {MASK} has {counted(got, 'number')}, want {size}, one per "
                    "choice of the Discrete and MultiDiscrete parts of its action space"
                )
        rest = dict(spaces) | {agent: _without_mask(space) for agent, space in masked.items()}
        self._observed = agent_observations(rest, action_spaces)
        own = self._observed.space
        self._is_dict = isinstance(own, gym.spaces.Dict)
        parts = OrderedDict(own.spaces if isinstance(own, gym.spaces.Dict) else [(OWN, own)])
        parts[MASK] = gym.spaces.MultiBinary(sum(self._sizes.values()))
        self.space: gym.Space = gym.spaces.Dict(parts)

    def __call__(self, obs: Mapping[Any, Any]) -> dict[str, Any]:
        """Return the combined observation as a dict."""
        rest = {agent: _rest(each) if agent in self._masked else each for agent, each in obs.items()}
        own, masks = self._observed(rest), []
        for agent, size in self._sizes.items():
            has_mask = agent in self._masked and agent in obs
            masks.append(np.asarray(obs[agent][MASK]).ravel() > 0 if has_mask else np.ones(size, bool))
        return (dict(own) if self._is_dict else {OWN: own}) | {MASK: np.concatenate(masks).astype(np.int8)}

    def local(self, agent_of: Sequence[int]) -> Callable[[Any], Any] | None:
        """Return the function from combined observations to that of one agent for each row of the network."""
        local = self._observed.local(agent_of)
        return None if local is None else lambda obs: local(obs[OWN])


def _without_mask(space: gym.spaces.Dict) -> gym.Space:
    """Return a Dict without its mask; if one other entry is left, that entry."""
    parts = OrderedDict((name, part) for name, part in space.spaces.items() if name != MASK)
    return next(iter(parts.values())) if len(parts) == 1 else gym.spaces.Dict(parts)


def _rest(obs: Mapping[str, Any]) -> Any:
    """Return an element of the space that `_without_mask` returns."""
    parts = {name: part for name, part in obs.items() if name != MASK}
    return next(iter(parts.values())) if len(parts) == 1 else parts


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
