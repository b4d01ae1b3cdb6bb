"""Observations extended by numbers from `info`."""

import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from .._text import counted
from ..observations import ObservationSpace, is_image_like
from ..rollouts.step_checks import checked_reset
from .canonical import Places, flat_observations, own_observations
from .rewards import value_at

OWN = "observation"
"""Entry of the environment's own observation, if it is an image or a Tuple."""


def with_info(
    env: gym.Env, paths: Sequence[str], before: Places = (), entries: Sequence[gym.spaces.Box] | None = None
) -> "Observed":
    """Return how to add the numbers at dotted paths into `info` to observations.

    If the spaces of these `entries` are not known, the environment is reset once to determine them.
    """
    if isinstance(paths, str) or not all(isinstance(path, str) and path for path in paths):
        raise TypeError(f'observe: got {paths!r}, want a list of paths into info, as in ["wind", "grid.price"]')
    if len({*paths, *(path for path, _, _ in before)}) < len(paths) + len(before):
        raise ValueError(f"observe: got {list(paths)}, want different paths")
    if entries is None:
        info = checked_reset(env, seed=0)[1]
        entries = [_space_of(path, _value(info, path)) for path in paths]
    named = OrderedDict(zip(paths, entries, strict=True))
    own = ObservationSpace.of(env.observation_space)
    is_vector = not own.is_compound and not own.images
    if is_vector and not any(is_image_like(space.shape, space.dtype) for space in entries):
        return Appended(env.observation_space, named, before)
    return Entries(env.observation_space, named, before)


class Observed(ABC):
    """Adds the numbers at dotted paths into `info` to observations."""

    space: gym.Space
    """The space of the observations with these numbers."""
    places: Places
    """Their columns in a row of observations."""

    def __init__(self, entries: "OrderedDict[str, gym.spaces.Box]", before: Places, start: int):
        """Add entries that begin at the column `start`."""
        self.entries = entries
        sizes = [math.prod(space.shape) for space in entries.values()]
        ends = start + np.cumsum(sizes, dtype=int)
        self._places = tuple((path, int(end - n), int(end)) for path, n, end in zip(entries, sizes, ends, strict=True))
        self.places = before + self._places

    @abstractmethod
    def __call__(self, obs: Any, info: Any) -> Any:
        """Return the observation with the numbers of `info`, in new arrays."""

    @abstractmethod
    def local(self, local: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the environment's own `local` as a function of these observations."""

    def numbers(self, info: Any, path: str) -> np.ndarray:
        """Return the numbers at a path, in the shape of their space."""
        space, value = self.entries[path], _value(info, path)
        size = math.prod(space.shape)
        if value.size != size:
            raise ValueError(
                f"observe: info[{path!r}] has {counted(value.size, 'number')}, want {size}, as after the first reset"
            )
        return value.astype(space.dtype).reshape(space.shape)


class Appended(Observed):
    """Appends the numbers to observations that are vectors."""

    def __init__(self, own: gym.Space, entries: "OrderedDict[str, gym.spaces.Box]", before: Places):
        space, self._flat = flat_observations(own)
        self.size = math.prod(space.shape)
        super().__init__(entries, before, self.size)
        self._length = self._places[-1][2]
        more = np.full(self._length - self.size, np.inf)
        low, high = np.append(space.low, -more), np.append(space.high, more)
        with np.errstate(over="ignore"):  # a 64-bit bound may overflow in 32 bits
            low, high = low.astype(np.float32), high.astype(np.float32)
        self.space = gym.spaces.Box(low, high, dtype=np.float32)

    def __call__(self, obs: Any, info: Any) -> np.ndarray:
        """Return the observation as a new array, ``(d,)``."""
        flat = np.empty(self._length, np.float32)
        flat[: self.size] = self._flat(obs).ravel()
        for path, start, end in self._places:
            flat[start:end] = self.numbers(info, path).ravel()
        return flat

    def local(self, local: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the environment's own `local` as a function of these observations."""
        return partial(_of_front, local, self.size)


class Entries(Observed):
    """Adds the numbers as entries of a Dict, next to those of a Dict, or to an image or a Tuple called
    ``observation``."""

    def __init__(self, own: gym.Space, entries: "OrderedDict[str, gym.spaces.Box]", before: Places):
        # the environment's own parts are first, so that earlier columns do not change
        super().__init__(entries, before, ObservationSpace.of(own).size)
        self._copied = own_observations(own)[1]
        named = OrderedDict(own.spaces if isinstance(own, gym.spaces.Dict) else [(OWN, own)])
        self._names = list(named) if isinstance(own, gym.spaces.Dict) else None
        if taken := [path for path in entries if path in named]:
            raise ValueError(
                f"observe: got {taken[0]!r}, which is already an entry of the observation; want paths into info with "
                "other names"
            )
        self.space = gym.spaces.Dict(OrderedDict([*named.items(), *entries.items()]))

    def __call__(self, obs: Any, info: Any) -> dict[str, Any]:
        """Return the observation as a dict."""
        own = self._copied(obs)
        return (own if self._names is not None else {OWN: own}) | {
            path: self.numbers(info, path) for path in self.entries
        }

    def local(self, local: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the environment's own `local` as a function of these observations."""
        return partial(_of_own, local, self._names)


def _of_front(local: Callable[[Any], Any], size: int, obs: Any) -> Any:
    return local(obs[..., :size])


def _of_own(local: Callable[[Any], Any], names: list[str] | None, obs: Any) -> Any:
    return local(obs[OWN] if names is None else {name: obs[name] for name in names})


def _value(info: Any, path: str) -> np.ndarray:
    advice = "want it in every info, including that of reset, because it must be known before the action"
    value = value_at(info, path.split("."), f"observe: {path!r}", advice)
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "biuf":
        raise ValueError(f"observe: info[{path!r}] is {value!r}, want numbers")
    return numbers


def _space_of(path: str, value: np.ndarray) -> gym.spaces.Box:
    """Return the space of an entry of `info`; a mask has a number for every choice, whatever its shape and type."""
    if path != "action_mask" and is_image_like(value.shape, value.dtype):
        if value.dtype == np.uint8:
            return gym.spaces.Box(0, 255, value.shape, np.uint8)
        return gym.spaces.Box(-np.inf, np.inf, value.shape, np.float32)
    return gym.spaces.Box(-np.inf, np.inf, (value.size,), np.float32)
