"""Observations extended by numbers from `info`."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from ..structure.labels import counted
from .canonical import Places, flat_observations
from .rewards import value_at


class Observed:
    """Appends the numbers at dotted paths into `info` to flat observations.

    If their `sizes` are not known, the environment is reset once to determine them."""

    def __init__(self, env: gym.Env, paths: Sequence[str], before: Places = (), sizes: Sequence[int] | None = None):
        if isinstance(paths, str) or not all(isinstance(path, str) and path for path in paths):
            raise TypeError(f'observe: got {paths!r}, want a list of paths into info, as in ["wind", "grid.price"]')
        if len({*paths, *(path for path, _, _ in before)}) < len(paths) + len(before):
            raise ValueError(f"observe: got {list(paths)}, want different paths")
        space, self._flat = flat_observations(env.observation_space)
        self.size = int(np.prod(space.shape))
        if sizes is None:
            info = env.reset(seed=0)[1]
            sizes = [_numbers(info, path).size for path in paths]
        ends = self.size + np.cumsum(sizes, dtype=int)
        self._places = tuple(
            (path, int(end - size), int(end)) for path, size, end in zip(paths, sizes, ends, strict=True)
        )
        self.places = before + self._places
        self._length = self.size + sum(sizes)
        more = np.full(sum(sizes), np.inf)
        low, high = np.append(space.low, -more), np.append(space.high, more)
        with np.errstate(over="ignore"):  # a 64-bit bound may overflow in 32 bits
            low, high = low.astype(np.float32), high.astype(np.float32)
        self.space = gym.spaces.Box(low, high, dtype=np.float32)

    def __call__(self, obs: Any, info: Any) -> np.ndarray:
        """Return the observation as a new array, ``(d,)``."""
        flat = np.empty(self._length, np.float32)
        flat[: self.size] = self._flat(obs).ravel()
        for path, start, end in self._places:
            numbers = _numbers(info, path)
            if numbers.size != end - start:
                raise ValueError(
                    f"observe: info[{path!r}] has {counted(numbers.size, 'number')}, want {end - start}, as "
                    "after the first reset"
                )
            flat[start:end] = numbers
        return flat


def _numbers(info: Any, path: str) -> np.ndarray:
    advice = "want it in every info, including that of reset, because it must be known before the action"
    value = value_at(info, path.split("."), f"observe: {path!r}", advice)
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "biuf":
        raise ValueError(f"observe: info[{path!r}] is {value!r}, want numbers")
    return numbers.astype(np.float32).ravel()
