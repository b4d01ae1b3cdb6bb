"""The parts of a reward: from an array, from `info`, from a function of the user, or the scalar itself."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .._text import counted, some
from ..rollouts.step_checks import Misfit

_EVERY_STEP = (
    "Every step must have it: add it in the environment, or pass a function (obs, action, reward, info) -> "
    "vector that handles its absence"
)


class Parts(NamedTuple):
    """How to read the targets from the result of a step."""

    read: Callable[..., Any]
    """Maps observation, action, reward and info to an array, a list or a number. For a vector environment, all have
    rows, the mask of environments that were only reset is the fifth argument, and the result is ``(N, m)``."""
    names: tuple[str, ...] | None = None
    """Names of the targets, if they have any."""


def parts_of(reward: Any, *, rows: bool = False) -> Parts:
    """Interpret the argument `reward` of `wrap` for a single environment, or with `rows` for a vector environment."""
    if reward is None:
        return Parts(lambda obs, action, reward, info, resets=None: info.get("vector_reward", reward))
    if isinstance(reward, str) and reward.startswith("info:"):
        return _from_info(reward, rows)
    if callable(reward):
        return Parts(
            (lambda obs, actions, rewards, info, resets: reward(obs, actions, rewards, info)) if rows else reward
        )
    if reward == "collapse":
        raise ValueError('reward: got "collapse", want it only for PettingZoo agents with equal rewards')
    raise ValueError(
        f'reward: got {reward!r}, want "info:…" with paths such as "info:profit,costs.energy", a function (obs, '
        "action, reward, info) -> vector, which for a vector environment has one row per environment, or None"
    )


def _from_info(reward: str, rows: bool) -> Parts:
    """Return how to read ``"info:a,b.c"``."""
    paths = [path.strip() for path in reward.removeprefix("info:").split(",")]
    if not all(paths) or len(set(paths)) < len(paths):
        raise ValueError(f'reward: got {reward!r}, want distinct paths separated by commas, as in "info:a,b.c"')
    routes = [path.split(".") for path in paths]

    def read(obs: Any, action: Any, scalar: Any, info: Any) -> Any:
        parts, nested = [], False
        for route in routes:
            value = value_at(info, route, f"reward: {reward!r}", _EVERY_STEP)
            if isinstance(value, Mapping):
                raise ValueError(
                    f"reward: {reward!r}: {'.'.join(route)!r} is a dictionary with {some([str(k) for k in value])}; "
                    "add a dot and one of these"
                )
            nested |= np.ndim(value) > 0
            parts.append(value)
        return np.concatenate([np.ravel(value) for value in parts]) if nested else parts

    def read_rows(obs: Any, actions: Any, rewards: Any, info: Any, resets: np.ndarray | None) -> Any:
        n = len(rewards)
        return np.concatenate([_rows_at(info, route, n, resets, reward).reshape(n, -1) for route in routes], axis=1)

    return Parts(read_rows if rows else read, tuple(paths))


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


def _rows_at(info: Any, route: list[str], n: int, resets: np.ndarray | None, reward: str) -> np.ndarray:
    """Return the value at a path into `info`, an array with one row per environment."""
    value, there = info, np.ones(n, bool)
    for depth, key in enumerate(route):
        if isinstance(value, np.ndarray):
            if value.ndim < 2 or not key.isdigit() or int(key) >= value.shape[1]:
                raise Misfit(
                    f"reward: {reward!r}: there is no {key!r} in {'.'.join(route[:depth])!r}, of shape {value.shape}"
                )
            value = value[:, int(key)]
            continue
        if not isinstance(value, Mapping) or key not in value:
            names = [str(k) for k in value if not str(k).startswith("_")] if isinstance(value, Mapping) else []
            where = f"info[{'.'.join(route[:depth])!r}]" if depth else "info"
            raise Misfit(
                f"reward: {reward!r}: there is no {key!r}; {where} has {some(names) or 'nothing'}. Every step must "
                "have it for each environment"
            )
        # Gymnasium marks in the entry _key which environments have the entry key
        there = there & np.asarray(value.get(f"_{key}", there))
        value = value[key]
    if resets is not None:
        there = there | resets  # without a step, an environment has no reward, and its row becomes zeros
    if not there.all():
        missing = int(np.flatnonzero(~there)[0])
        raise Misfit(
            f"reward: {reward!r}: {'.'.join(route)!r} is missing for environment {missing}, want it in every step"
        )
    rows = np.asarray(value)
    if rows.dtype.char == "O":  # as Gymnasium collects arrays that not all environments have
        rows = np.stack([np.asarray(row) for row in rows])
    if rows.shape[:1] != (n,):
        raise Misfit(
            f"reward: {reward!r}: {'.'.join(route)!r} has shape {rows.shape}, want one row for each of "
            f"{counted(n, 'environment')}"
        )
    return rows
