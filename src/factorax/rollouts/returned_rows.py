"""Checks of the return values of vector environments, with one row per environment."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..observations import ObservationSpace
from ..structure.labels import counted
from .returned import REAL, Misfit, observation, real_numbers, shown_value

_WHERE = (
    "Return it as the reward, or put it in info['vector_reward']; or pass its location to fx.wrap(make, network, "
    'reward=…): "info:…", or a function (obs, actions, rewards, info) -> array with one row per environment'
)


def observations(observed: Any, n: int, space: ObservationSpace) -> np.ndarray:
    """Return the observations of all environments as rows ``(n, d)``, possibly as a view."""
    if space.is_compound:
        return _compound(observed, n, space)
    shape = space.parts[0].shape
    rows = observed if type(observed) is np.ndarray else real_numbers("observations", observed)
    if rows.dtype.char not in REAL:
        real_numbers("observations", observed)
    if rows.shape != (n, *shape):
        raise Misfit(
            f"observations: got shape {rows.shape}, want {(n, *shape)}, one row for each of "
            f"{counted(n, 'environment')}, as in its single_observation_space"
        )
    return rows.reshape(n, -1)


def _compound(observed: Any, n: int, space: ObservationSpace) -> np.ndarray:
    try:
        rows, is_one = space.batch(observed)
    except (ValueError, TypeError) as error:
        raise Misfit(str(error)) from None
    if is_one or len(rows) != n:
        got = "one" if is_one else len(rows)
        raise Misfit(f"observations: got {got}, want {n}, one per environment, as the first axis of each part")
    return rows


def targets(vector: Any, n: int, m: int | None) -> np.ndarray:
    """Return the targets of all environments as ``(n, m)``; a single target may have shape ``(n,)``.

    If `m` is None, their number is not known yet, and any is accepted.
    """
    rows = vector if type(vector) is np.ndarray else _together("rewards", vector)
    if rows.dtype.char not in REAL:
        rows = _together("rewards", vector)
    if rows.shape == (n, m) or (m is None and rows.ndim == 2 and len(rows) == n):
        return rows
    if m in (1, None) and rows.shape == (n,):
        return rows[:, None]
    width = "m" if m is None else m
    want = f"want ({n}, {width}), one row for each of {counted(n, 'environment')} and one column per target"
    if rows.ndim == 2 and rows.shape[1] == n and m in (len(rows), None):
        raise Misfit(f"rewards: got shape {rows.shape}, {want}; it is the transpose: return rewards.T")
    raise Misfit(f"rewards: got shape {rows.shape}, {want}. {_WHERE}")


def flags(name: str, values: Any, n: int) -> np.ndarray:
    """Return a flag of all environments as booleans ``(n,)``; 0 and 1 are accepted."""
    entries = np.asarray(values)
    if entries.dtype.char == "?" and entries.shape == (n,):
        return entries
    want = f"want {counted(n, 'boolean')}, one per environment"
    if entries.dtype.char not in REAL or entries.shape != (n,):
        raise Misfit(f"{name}: got {shown_value(values)}, {want}")
    if not ((entries == 0) | (entries == 1)).all():
        raise Misfit(f"{name}: got {shown_value(values)}, {want}")
    return entries.astype(bool)


def masks(name: str, values: np.ndarray, n: int, size: int | None) -> np.ndarray:
    """Return a mask of `info` as booleans ``(n, size)``; of any width if `size` is None."""
    of = {"factor_mask": "factor", "target_terminated": "target"}[name]
    width = "…" if size is None else size
    want = f"want booleans of shape ({n}, {width}), one row per environment and one column per {of}"
    fits = values.ndim == 2 and len(values) == n and (size is None or values.shape[1] == size)
    if not fits:
        raise Misfit(f"info['{name}']: got shape {values.shape}, {want}")
    if values.dtype.char != "?" and (values.dtype.char not in REAL or not ((values == 0) | (values == 1)).all()):
        raise Misfit(f"info['{name}']: got {shown_value(values)}, {want}")
    return values.astype(bool, copy=False)


def entry(info: Mapping[str, Any], name: str, n: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return an entry of `info` as an array ``(n, ...)``, and which of its rows are set, by the entry ``_name``.

    None if there is no such entry.
    """
    value = info.get(name)
    if value is None:
        return None
    there = info.get(f"_{name}")
    there = np.ones(n, bool) if there is None else flags(f"info['_{name}']", there, n)
    rows = np.asarray(value) if type(value) is not np.ndarray or value.dtype.char == "O" else value
    if rows.shape[:1] != (n,):
        raise Misfit(f"info['{name}']: got shape {rows.shape}, want one row for each of {counted(n, 'environment')}")
    if rows.dtype.char == "O":  # lists, or arrays of different shapes
        rows = _together(f"info['{name}']", [rows[i] if there[i] else None for i in range(n)])
    return rows, there


def with_final(info: dict[str, Any], n: int) -> dict[str, Any]:
    """Return the `info` of a step, with ``info["final_info"]`` for environments that were reset in the same step.

    For those, the other entries of `info` belong to the next episode.
    """
    final, ended = info.get("final_info"), info.get("_final_info")
    if not isinstance(final, Mapping):
        return info
    ended = np.ones(n, bool) if ended is None else flags("info['_final_info']", ended, n)
    of_step = {name: value for name, value in info.items() if not name.removeprefix("_").startswith("final_")}
    return _overlaid(of_step, final, ended, "final_info")


def _overlaid(base: Mapping[str, Any], final: Mapping[str, Any], ended: np.ndarray, path: str) -> dict[str, Any]:
    overlaid, none = dict(base), np.zeros(len(ended), bool)
    for name, value in final.items():
        if name.startswith("_") and name[1:] in final:
            continue
        there = flags(f"_{name}", final.get(f"_{name}", ended), len(ended)) & ended
        before = base.get(name)
        if isinstance(value, Mapping):
            overlaid[name] = _overlaid(before if isinstance(before, Mapping) else {}, value, ended, f"{path}.{name}")
        elif before is None:
            overlaid[name] = value
        else:
            rows, last = np.asarray(before), np.asarray(value)
            if rows.shape != last.shape:
                raise Misfit(
                    f"info['{path}']['{name}']: got shape {last.shape}, want {rows.shape}, as in the entry next to it"
                )
            spread = there.reshape(-1, *[1] * (rows.ndim - 1))
            overlaid[name] = np.where(spread, last, rows)
        earlier = (
            np.ones(len(ended), bool) if before is not None and f"_{name}" not in base else base.get(f"_{name}", none)
        )
        overlaid[f"_{name}"] = (earlier & ~ended) | there
    return overlaid


def last_observations(info: Mapping[str, Any], ended: np.ndarray, space: ObservationSpace) -> np.ndarray:
    """Return the last observations of ended episodes, rows ``(k, d)``, from ``info["final_obs"]``."""
    final = info.get("final_obs")
    if final is None:
        raise Misfit(
            f"info['final_obs']: is missing in a step in which environment {ended[0]} ended, want its last observation "
            "there, because metadata['autoreset_mode'] is AutoresetMode.SAME_STEP"
        )
    return np.stack([observation(final[i], space) for i in ended])


def _together(name: str, values: Any) -> np.ndarray:
    """Return rows of lists as one array; None becomes zeros."""
    if not isinstance(values, list | tuple | np.ndarray):
        return real_numbers(name, values)
    rows = [None if row is None else real_numbers(name, row) for row in values]
    like = next((row for row in rows if row is not None), None)
    if like is None:
        return real_numbers(name, values)
    shapes = {row.shape for row in rows if row is not None}
    if len(shapes) > 1:
        raise Misfit(
            f"{name}: got rows of shapes {' and '.join(map(str, sorted(shapes)))}, want the same shape for all"
        )
    return np.stack([np.zeros_like(like) if row is None else row for row in rows])
