"""The parts of the rewards of a vector environment, as arrays with one row per environment."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..rollouts.returned import Misfit
from ..structure.labels import counted, some
from .rewards import routes_of


class RowParts(NamedTuple):
    """How to read the targets of all environments from the result of a step."""

    read: Callable[[Any, Any, Any, Any, np.ndarray | None], Any]
    """Maps observations, actions, rewards, info, and the mask of environments that were only reset, to ``(N, m)``."""
    names: tuple[str, ...] | None = None
    """Names of the targets, if they have any."""


def row_parts_of(reward: Any) -> RowParts:
    """Interpret the argument `reward` of `wrap` for a vector environment."""
    if reward is None:
        return RowParts(lambda obs, actions, rewards, info, resets: info.get("vector_reward", rewards))
    if isinstance(reward, str) and reward.startswith("info:"):
        return _from_info(reward)
    if callable(reward):
        return RowParts(lambda obs, actions, rewards, info, resets: reward(obs, actions, rewards, info))
    raise ValueError(
        f'reward: got {reward!r}, want "info:…" with paths such as "info:profit,costs.energy", a function '
        "(obs, actions, rewards, info) -> array with one row per environment, or None"
    )


def _from_info(reward: str) -> RowParts:
    routes = routes_of(reward)

    def read(obs: Any, actions: Any, rewards: Any, info: Any, resets: np.ndarray | None) -> Any:
        n = len(rewards)
        columns = [_rows_at(info, route, n, resets, reward) for route in routes.values()]
        return np.concatenate([rows.reshape(n, -1) for rows in columns], axis=1)

    return RowParts(read, tuple(routes))


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
        there = there & np.asarray(value.get(f"_{key}", there))
        value = value[key]
    if resets is not None:
        there = there | resets
    if not there.all():
        missing = int(np.flatnonzero(~there)[0])
        raise Misfit(
            f"reward: {reward!r}: {'.'.join(route)!r} is missing for environment {missing}, want it in every step"
        )
    rows = np.asarray(value)
    if rows.dtype.char == "O":
        rows = np.stack([np.asarray(row) for row in rows])
    if rows.shape[:1] != (n,):
        raise Misfit(
            f"reward: {reward!r}: {'.'.join(route)!r} has shape {rows.shape}, want one row for each of "
            f"{counted(n, 'environment')}"
        )
    return rows
