"""The parts of a reward: from an array, from `info`, from a function of the user, or the scalar itself."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..structure.labels import some

_EVERY_STEP = (
    "Every step must have it: add it in the environment, or pass a function (obs, action, reward, info) -> "
    "vector that handles its absence"
)


class Parts(NamedTuple):
    """How to read the vector of targets from the result of a step."""

    read: Callable[[Any, Any, Any, Any], Any]
    """Maps observation, action, reward and info to an array, a list or a number."""
    names: tuple[str, ...] | None = None
    """Names of the targets, if they have any."""


def parts_of(reward: Any) -> Parts:
    """Interpret the argument `reward` of `wrap` for a single environment."""
    if reward is None:
        return Parts(lambda obs, action, reward, info: info.get("vector_reward", reward))
    if isinstance(reward, str) and reward.startswith("info:"):
        return _from_info(reward)
    if callable(reward):
        return Parts(reward)
    if isinstance(reward, str) and reward == "collapse":
        raise ValueError('reward: got "collapse", want it only for PettingZoo agents with equal rewards')
    raise ValueError(
        f'reward: got {reward!r}, want "info:…" with paths such as "info:profit,costs.energy", a function '
        "(obs, action, reward, info) -> vector, or None"
    )


def routes_of(reward: str) -> dict[str, list[str]]:
    """Return the keys of each path in ``"info:a,b.c"``."""
    paths = [path.strip() for path in reward.removeprefix("info:").split(",")]
    if not all(paths) or len(set(paths)) < len(paths):
        raise ValueError(f'reward: got {reward!r}, want distinct paths separated by commas, as in "info:a,b.c"')
    return {path: path.split(".") for path in paths}


def _from_info(reward: str) -> Parts:
    routes = routes_of(reward)

    def read(obs: Any, action: Any, scalar: Any, info: Any) -> Any:
        parts, nested = [], False
        for route in routes.values():
            value = value_at(info, route, f"reward: {reward!r}", _EVERY_STEP)
            if isinstance(value, Mapping):
                raise ValueError(
                    f"reward: {reward!r}: {'.'.join(route)!r} is a dictionary with {some([str(k) for k in value])}; "
                    "add a dot and one of these"
                )
            nested |= np.ndim(value) > 0
            parts.append(value)
        return np.concatenate([np.ravel(value) for value in parts]) if nested else parts

    return Parts(read, tuple(routes))


def value_at(info: Any, route: list[str], what: str, advice: str) -> Any:
    """Return the value at a path into `info`, through dictionaries and lists; raise ValueError, prefixed by `what`."""
    value = info
    for depth, key in enumerate(route):
        try:
            value = value[int(key)] if isinstance(value, list | tuple | np.ndarray) else value[key]
        except (KeyError, IndexError, TypeError, ValueError):
            where = f"info[{'.'.join(route[:depth])!r}]" if depth else "info"
            has = f"has {some([str(k) for k in value]) or 'nothing'}" if isinstance(value, Mapping) else f"is {value!r}"
            raise ValueError(f"{what}: there is no {key!r}; {where} {has}. {advice}") from None
    return value
