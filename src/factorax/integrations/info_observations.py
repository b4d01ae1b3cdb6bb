"""Observations extended by numbers from `info`."""

import math
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


class Observed:
    """Adds the numbers at dotted paths into `info` to observations: at the end of vectors, otherwise as entries of a
    Dict, next to those of a Dict, or to an image or a Tuple called ``observation``."""

    space: gym.Space
    """The space of the observations with these numbers."""
    places: Places
    """Their columns in a row of observations."""

    def __init__(
        self, env: gym.Env, paths: Sequence[str], before: Places = (), entries: Sequence[gym.spaces.Box] | None = None
    ):
        """Add paths; if the spaces of their `entries` are not known, the environment is reset once to tell them."""
        if isinstance(paths, str) or not all(isinstance(path, str) and path for path in paths):
            raise TypeError(f'observe: got {paths!r}, want a list of paths into info, as in ["wind", "grid.price"]')
        if len({*paths, *(path for path, _, _ in before)}) < len(paths) + len(before):
            raise ValueError(f"observe: got {list(paths)}, want different paths")
        if entries is None:
            info = checked_reset(env, seed=0)[1]
            entries = [_space_of(path, _value(info, path)) for path in paths]
        self.entries = OrderedDict(zip(paths, entries, strict=True))
        own = env.observation_space
        layout = ObservationSpace.of(own)
        has_images = bool(layout.images) or any(is_image_like(space.shape, space.dtype) for space in entries)
        self._is_vector = not layout.is_compound and not has_images
        self._names = list(own.spaces) if isinstance(own, gym.spaces.Dict) else None
        if self._is_vector:
            flat, self._copied = flat_observations(own)
            self._size = math.prod(flat.shape)
            more = np.full(sum(math.prod(space.shape) for space in entries), np.inf)
            low, high = np.append(flat.low, -more), np.append(flat.high, more)
            with np.errstate(over="ignore"):  # a 64-bit bound may overflow in 32 bits
                self.space = gym.spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)
        else:
            self._size, self._copied = layout.size, own_observations(own)[1]
            named = OrderedDict(own.spaces if isinstance(own, gym.spaces.Dict) else [(OWN, own)])
            if taken := [path for path in paths if path in named]:
                raise ValueError(
                    f"observe: got {taken[0]!r}, which is already an entry of the observation; want paths into info "
                    "with other names"
                )
            self.space = gym.spaces.Dict(OrderedDict([*named.items(), *self.entries.items()]))
        # the environment's own numbers are first, so that earlier columns do not change
        ends = self._size + np.cumsum([math.prod(space.shape) for space in entries], dtype=int)
        starts = (self._size, *ends.tolist())
        self.places = before + tuple(zip(paths, starts, ends.tolist(), strict=False))

    def __call__(self, obs: Any, info: Any) -> Any:
        """Return the observation with the numbers of `info`, in new arrays."""
        numbers = {path: self._numbers(info, path) for path in self.entries}
        own = self._copied(obs)
        if self._is_vector:
            return np.concatenate([np.ravel(part) for part in (own, *numbers.values())], dtype=np.float32)
        return (own if self._names is not None else {OWN: own}) | numbers

    def _numbers(self, info: Any, path: str) -> np.ndarray:
        """Return the numbers at a path, in the shape of their space."""
        space, value = self.entries[path], _value(info, path)
        size = math.prod(space.shape)
        if value.size != size:
            raise ValueError(
                f"observe: info[{path!r}] has {counted(value.size, 'number')}, want {size}, as after the first reset"
            )
        return value.astype(space.dtype).reshape(space.shape)

    def local(self, local: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the environment's own `local` as a function of these observations."""
        # not a method of this object, which holds spaces: the function is sent to workers
        if self._is_vector:
            return partial(_of_front, local, self._size)
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
