"""Checks of what environments return; for single ones they run only if a step cannot be used as it is."""

from collections.abc import Mapping
from typing import Any, TypeGuard

import gymnasium as gym
import numpy as np

from .._text import counted
from ..observations import ObservationSpace

REAL = frozenset("?bBhHiIlLqQefdg")
"""Characters of the NumPy types that are real numbers."""
FIVE = "(observation, reward, terminated, truncated, info)"


_WHERE = (
    "Return it as the reward, or put it in info['vector_reward']; or pass its location to fx.wrap(make, network, "
    'reward=…): "info:…", or a function (obs, actions, rewards, info) -> array with one row per environment'
)


class Misfit(ValueError):
    """Raised for a return value of an environment that cannot be used."""


def name_of(env: Any) -> str:
    """Return the name of an environment: its Gymnasium id, or its class."""
    spec, bare = getattr(env, "spec", None), getattr(env, "unwrapped", env)
    if spec is None and hasattr(bare, "env"):  # a wrapper of `fx.wrap` is its own `unwrapped`
        return name_of(bare.env)
    return str(getattr(spec, "id", None) or getattr(bare, "called", None) or type(bare).__name__)


def real_numbers(name: str, value: Any) -> np.ndarray:
    """Return an array of real numbers; raise `Misfit` for anything else, such as strings, None and complex numbers."""
    numbers = _array(value)
    if numbers is None or numbers.dtype.char not in REAL:
        hint = "; use fx.wrap for a PettingZoo environment" if isinstance(value, Mapping) else ""
        raise Misfit(f"{name}: got {shown_value(value)}, want real numbers{hint}")
    return numbers


def observation(observed: Any, space: ObservationSpace) -> np.ndarray:
    """Return an observation as a row ``(d,)``; raise `Misfit` unless it has the real numbers of its space."""
    if space.is_compound:
        try:
            return space.row(observed)
        except (ValueError, TypeError) as error:
            raise Misfit(str(error)) from None
    size, numbers = space.size, real_numbers("observation", observed)
    if numbers.size != size:
        raise Misfit(
            f"observation: got {counted(numbers.size, 'number')} in shape {numbers.shape}, want {size}, as in its "
            "observation space"
        )
    return numbers.reshape(size)


def targets(vector: Any, size: int) -> np.ndarray:
    """Return targets as ``(size,)``; NumPy would silently broadcast a single number."""
    if isinstance(vector, Mapping):
        raise Misfit(
            f"reward: got {shown_value(vector)}, want a number, or {counted(size, 'target')} in info['vector_reward']; "
            "use fx.wrap for a PettingZoo environment"
        )
    numbers = real_numbers("info['vector_reward'] or reward", vector)
    if numbers.size != size:
        raise Misfit(
            f"info['vector_reward']: got {counted(numbers.size, 'target')}, want {size}, one per column of the "
            "influence network; fx.wrap(make, network, reward=…) takes their location"
        )
    return numbers.reshape(size)


def flag(name: str, value: Any) -> bool:
    """Return a flag as a boolean; 0 and 1 are accepted, strings and None are not."""
    return bool(value) if isinstance(value, bool | np.bool_) else bool(flags(name, value))


def flags(name: str, values: Any, *shape: int) -> np.ndarray:
    """Return a flag of all environments as booleans ``(n,)``, or of one environment ``()``; 0 and 1 are accepted."""
    # Not just any value as a boolean: the text 'False' would be true.
    entries = _array(values)
    if not _are_flags(entries, shape):
        want = f"{counted(shape[0], 'boolean')}, one per environment" if shape else "True or False"
        raise Misfit(f"{name}: got {shown_value(values)}, want {want}")
    return entries.astype(bool, copy=False)


def mask(name: str, value: Any, *shape: int | None) -> np.ndarray:
    """Return a mask of `info` as booleans ``(size,)``, or ``(n, size)`` of all environments; of any size if it is
    None."""
    entries, of = _array(value), {"factor_mask": "factor", "target_terminated": "target"}[name]
    if not _are_flags(entries, shape):
        got, (*rows, size) = shown_value(value), shape
        want = f"{'booleans' if size is None else counted(size, 'boolean')}, one per {of}"
        if rows:
            got = got if entries is None or entries.shape == shape else f"shape {entries.shape}"
            width = "…" if size is None else size
            want = f"booleans of shape ({rows[0]}, {width}), one row per environment and one column per {of}"
        raise Misfit(f"info['{name}']: got {got}, want {want}")
    return entries.astype(bool, copy=False)


def _are_flags(entries: np.ndarray | None, shape: tuple[int | None, ...]) -> TypeGuard[np.ndarray]:
    """Return whether these are booleans, or the numbers 0 and 1, of this shape; None is any length."""
    if entries is None or entries.dtype.char not in REAL or entries.ndim != len(shape):
        return False
    fits = all(size in (None, length) for size, length in zip(shape, entries.shape, strict=True))
    return fits and (entries.dtype.char == "?" or bool(((entries == 0) | (entries == 1)).all()))


def first_observation(observed: Any, space: ObservationSpace) -> np.ndarray:
    """Return the observation of a `reset` as a row ``(d,)`` in float32."""
    row = observation(observed, space).astype(np.float32)
    if not np.isfinite(row).all():
        raise Misfit(f"observation: got {shown_value(observed)} from reset, want finite numbers")
    return row


def checked_reset(env: Any, **arguments: Any) -> tuple[Any, Any]:
    """Return observation and `info` of a reset; raise `Misfit` that names the environment for the interface of old
    versions of Gym."""
    try:
        returned = env.reset(**arguments)
    except TypeError as error:
        # Any other TypeError is a mistake within `reset`, which its own message explains best.
        if "unexpected keyword argument" not in str(error):
            raise
        raise Misfit(f"{name_of(env)}: reset: {error}; want reset(self, *, seed=None, options=None)") from error
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise Misfit(f"{name_of(env)}: reset: got {shown_value(returned)}, want (observation, info), as in Gymnasium")
    return returned


def checked_step(env: Any, action: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return the five values of a step; raise `Misfit` that names the environment if they are not five."""
    returned = env.step(action)
    try:
        check_step(returned)
    except Misfit as error:
        raise Misfit(f"{name_of(env)}: {error}") from None
    return returned


def check_step(returned: Any) -> None:
    """Raise `Misfit` unless a step returned five values, the last of them a dict."""
    if not isinstance(returned, tuple) or len(returned) != 5:
        old = "; this is the interface of Gym before 0.26" if isinstance(returned, tuple) and len(returned) == 4 else ""
        what = f"{counted(len(returned), 'value')}" if isinstance(returned, tuple) else shown_value(returned)
        raise Misfit(f"step: got {what}, want five values, {FIVE}{old}")
    if not isinstance(returned[4], Mapping):
        raise Misfit(f"info: got {shown_value(returned[4])}, want a dict")


def ignores_mask(info: Any, env: Any, space: ObservationSpace) -> bool:
    """Return whether `info` has a mask of valid actions that is not part of the observations."""
    if not isinstance(info, Mapping) or "action_mask" not in info:
        return False
    names = [name for name, _, _ in getattr(env, "observed_info", ())]
    return "action_mask" not in names and all(part.where != "['action_mask']" for part in space.parts)


def check_spaces(env: Any, first: Any) -> None:
    """Raise `Misfit` unless an environment has spaces, and the same action space as the first environment."""
    for name in ("observation_space", "action_space"):
        space = getattr(env, name, None)
        if not isinstance(space, gym.Space):
            raise Misfit(f"{name}: got {shown_value(space)}, want a Gymnasium space")
    space = env.action_space
    if space is not first and space != first and repr(space) != repr(first):
        raise Misfit(f"action_space: got {space}, want {first}, as in the first environment")


def _array(value: Any) -> np.ndarray | None:
    try:
        return np.asarray(value)
    except (ValueError, TypeError):  # ragged, or not convertible
        return None


def shown_value(value: Any) -> str:
    """Return a value with its type, abbreviated."""
    if value is None or isinstance(value, bool | str):
        return f"{value!r:.60}"
    if isinstance(value, np.ndarray) and value.size > 8:
        return f"an array of {value.dtype} and shape {value.shape}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}... ({type(value).__name__})"


# ---- vector environments, with one row per environment --------------------------------------------------


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


def target_rows(vector: Any, n: int, m: int | None) -> np.ndarray:
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
