"""What an environment tells in `info`, as a part of what is observed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from ..structure.labels import some
from .canonical import flat_observations


class ObserveInfo(gym.Wrapper):
    """Numbers of `info` at the end of the observation, flat; the option `observe` of `factorax.wrap` makes it.

    The environment is reset once, to see how many there are.
    """

    observed_info: tuple[tuple[str, int, int], ...]
    """Of every path where its numbers begin and end in the observation."""

    def __init__(self, env: gym.Env, paths: Sequence[str], local: Callable[[Any], Any] | None = None):
        super().__init__(env)
        if isinstance(paths, str) or not all(isinstance(path, str) and path for path in paths):
            raise TypeError(f'observe: got {paths!r}, want a list of paths into info, as in ["wind", "grid.price"]')
        if len(set(paths)) < len(paths):
            raise ValueError(f"observe: got {list(paths)}, want different paths")
        space, self._flat = flat_observations(env.observation_space)
        self._size = int(np.prod(space.shape))
        _, info = env.reset(seed=0)
        sizes = [_numbers(info, path).size for path in paths]
        ends = self._size + np.cumsum(sizes)
        self.observed_info = tuple(
            (path, int(end - size), int(end)) for path, size, end in zip(paths, sizes, ends, strict=True)
        )
        self._length = self._size + sum(sizes)
        more = np.full(sum(sizes), np.inf)
        low, high = np.append(space.low, -more), np.append(space.high, more)
        self.observation_space = gym.spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)
        if local is not None:
            self.local = lambda obs: local(obs[..., : self._size])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._observe(obs, info), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Act."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._observe(obs, info), reward, terminated, truncated, info

    def _observe(self, obs: Any, info: Mapping[str, Any]) -> np.ndarray:
        seen = np.empty(self._length, np.float32)
        seen[: self._size] = self._flat(obs).ravel()
        for path, start, end in self.observed_info:
            given = _numbers(info, path)
            if given.size != end - start:
                raise ValueError(
                    f"observe: info[{path!r}] has {given.size} numbers, want {end - start}, as many as after the first "
                    "reset"
                )
            seen[start:end] = given
        return seen


def _numbers(info: Mapping[str, Any], path: str) -> np.ndarray:
    """What a dotted path leads to, flat."""
    value: Any = info
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            has = some([str(k) for k in value]) if isinstance(value, Mapping) else repr(value)
            raise ValueError(
                f"observe: {path!r}: there is no {key!r} in {has or 'nothing'}; want it in every info, that of reset "
                "included, for what is known before an action is what counts"
            )
        value = value[key]
    try:
        return np.asarray(value, np.float32).ravel()
    except (TypeError, ValueError):
        raise ValueError(f"observe: info[{path!r}] is {value!r}, want numbers") from None
