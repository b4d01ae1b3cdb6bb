"""What an environment tells in `info`, as a part of what is observed."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from .canonical import Places, flat_observations
from .rewards import value_at


class Observed:
    """Observations, flat, and at their end what some dotted paths into `info` lead to. If it is not known how many
    numbers each of them has, the environment is reset once to see."""

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
        with np.errstate(over="ignore"):  # a bound of 64 bits may be no number of 32
            low, high = low.astype(np.float32), high.astype(np.float32)
        self.space = gym.spaces.Box(low, high, dtype=np.float32)

    def __call__(self, obs: Any, info: Any) -> np.ndarray:
        """A fresh array, ``(d,)``."""
        seen = np.empty(self._length, np.float32)
        seen[: self.size] = self._flat(obs).ravel()
        for path, start, end in self._places:
            given = _numbers(info, path)
            if given.size != end - start:
                raise ValueError(
                    f"observe: info[{path!r}] has {given.size} numbers, want {end - start}, as many as after the first "
                    "reset"
                )
            seen[start:end] = given
        return seen


def _numbers(info: Any, path: str) -> np.ndarray:
    advice = "want it in every info, that of reset included: what is known before an action is what counts"
    value = value_at(info, path.split("."), f"observe: {path!r}", advice)
    found = np.asarray(value)
    if found.dtype.kind not in "biuf":
        raise ValueError(f"observe: info[{path!r}] is {value!r}, want numbers")
    return found.astype(np.float32).ravel()
