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


class AgentObservations:
    """Combines the observations of agents: as one vector, or as a Dict if there are images, which keep their shape.

    In a vector, each is flattened and padded with zeros to the longest. Agents without an observation have zeros, by
    which the spaces in a Dict are extended. If agents observe an ``action_mask``, the result is a Dict with the masks
    of all agents as one, in which all choices are valid for agents without one; the rest is called ``observation`` if
    it is a vector.
    """

    def __init__(self, spaces: Mapping[Any, Any], action_spaces: Mapping[Any, gym.Space]):
        self._masked = {a for a, space in spaces.items() if isinstance(space, gym.spaces.Dict) and MASK in space.spaces}
        rest = {agent: _without_mask(space) if agent in self._masked else space for agent, space in spaces.items()}
        self._is_vector = not any(ObservationSpace.of(space).images for space in rest.values())
        if self._is_vector:
            flattened = {agent: flat_observations(space) for agent, space in rest.items()}
            self._observers: dict[Any, Any] = {agent: observe for agent, (_, observe) in flattened.items()}
            boxes = [box for box, _ in flattened.values()]
            self._length = max(int(np.prod(box.shape)) for box in boxes)
            # bounds include 0, which pads short observations and stands for those of dead agents
            low, high = np.zeros((2, len(boxes), self._length), np.float32)
            for i, box in enumerate(boxes):
                size = int(np.prod(box.shape))
                low[i, :size], high[i, :size] = np.minimum(box.low.ravel(), 0), np.maximum(box.high.ravel(), 0)
            self.space: gym.Space = gym.spaces.Box(low.ravel(), high.ravel(), dtype=np.float32)
        else:
            self._observers = {agent: own_observations(space)[1] for agent, space in rest.items()}
            # by name: keys of a Dict are strings, agents need not be
            self._spaces = OrderedDict((str(agent), _with_zeros(space)) for agent, space in rest.items())
            self.space = gym.spaces.Dict(self._spaces)
        self._sizes = self._mask_sizes(spaces, action_spaces) if self._masked else {}
        if self._masked:
            parts: OrderedDict[str, Any] = OrderedDict([(OWN, self.space)] if self._is_vector else self._spaces)
            parts[MASK] = gym.spaces.MultiBinary(sum(self._sizes.values()))
            self.space = gym.spaces.Dict(parts)

    def _mask_sizes(self, spaces: Mapping[Any, Any], action_spaces: Mapping[Any, gym.Space]) -> dict[Any, int]:
        """Return the number of choices of each agent."""
        sizes = {}
        for agent, space in action_spaces.items():
            components = ActionSpace.of(space)
            sizes[agent] = size = int(components.choices[np.array(components.kinds) == Categorical.name].sum())
            got = int(np.prod(spaces[agent][MASK].shape or ())) if agent in self._masked else size
            if got != size:
                raise ValueError(
                    f"observation space of {agent!r}: its {MASK} has {counted(got, 'number')}, want {size}, one per "
                    "choice of the Discrete and MultiDiscrete parts of its action space"
                )
        return sizes

    def __call__(self, obs: Mapping[Any, Any]) -> Any:
        """Return the combined observation in new arrays: ``(d,)``, or a dict."""
        rest = {agent: _rest(each) if agent in self._masked else each for agent, each in obs.items()}
        if self._is_vector:
            rows = np.zeros((len(self._observers), self._length), np.float32)
            for i, (agent, observe) in enumerate(self._observers.items()):
                if agent in rest:
                    row = observe(rest[agent]).ravel()
                    rows[i, : row.size] = row
            combined: Any = rows.ravel()
        else:
            combined = {
                str(agent): observe(rest[agent]) if agent in rest else _zeros(self._spaces[str(agent)])
                for agent, observe in self._observers.items()
            }
        if not self._masked:
            return combined
        # all choices of a dead agent are valid: its action is ignored, but a policy needs one
        masks = [
            np.asarray(obs[agent][MASK]).ravel() > 0 if agent in self._masked and agent in obs else np.ones(size, bool)
            for agent, size in self._sizes.items()
        ]
        return ({OWN: combined} if self._is_vector else combined) | {MASK: np.concatenate(masks).astype(np.int8)}

    def local(self, agent_of: Sequence[int]) -> Callable[[Any], Any] | None:
        """Return the function from combined observations to that of one agent for each row of the network; None if
        there are images, which would lose their shape."""
        if not self._is_vector:
            return None
        n, length, index, is_masked = len(self._observers), self._length, np.asarray(agent_of), bool(self._masked)

        def local(obs: Any) -> Any:
            rows = obs[OWN] if is_masked else obs
            return rows.reshape(*rows.shape[:-1], n, length)[..., index, :]

        return local


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
