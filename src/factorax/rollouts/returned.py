"""Checks of the return values of environments. Called only if a step cannot be used as it is."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from ..observations import ObservationSpace
from ..structure.labels import counted

REAL = frozenset("?bBhHiIlLqQefdg")
"""Characters of the NumPy types that are real numbers."""
FIVE = "(observation, reward, terminated, truncated, info)"


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
    if isinstance(value, bool | np.bool_):
        return bool(value)
    number = None if isinstance(value, str | bytes) else _array(value)
    if number is None or number.shape != () or number.dtype.char not in REAL or number not in (0, 1):
        raise Misfit(f"{name}: got {shown_value(value)}, want True or False")
    return bool(number)


def mask(name: str, value: Any, size: int | None) -> np.ndarray:
    """Return a mask of `info` as booleans ``(size,)``; of any length if `size` is None."""
    entries, of = _array(value), {"factor_mask": "factor", "target_terminated": "target"}[name]
    want = f"{'booleans' if size is None else counted(size, 'boolean')}, one per {of}"
    if entries is None or entries.dtype.char not in REAL or entries.ndim != 1:
        raise Misfit(f"info['{name}']: got {shown_value(value)}, want {want}")
    if size is not None and entries.size != size:
        raise Misfit(f"info['{name}']: got {counted(entries.size, 'entry', 'entries')}, want {want}")
    if not ((entries == 0) | (entries == 1)).all():
        raise Misfit(f"info['{name}']: got {shown_value(value)}, want {want}")
    return entries.astype(bool)


def first_observation(returned: Any, space: ObservationSpace) -> np.ndarray:
    """Return the observation of a `reset` as a row ``(d,)`` in float32."""
    check_reset(returned)
    observed = observation(returned[0], space).astype(np.float32)
    if not np.isfinite(observed).all():
        raise Misfit(f"observation: got {shown_value(returned[0])} from reset, want finite numbers")
    return observed


def checked_reset(env: Any, **arguments: Any) -> tuple[Any, Any]:
    """Return observation and `info` of a reset; raise `Misfit` that names the environment for the interface of old
    versions of Gym."""
    try:
        returned = env.reset(**arguments)
        check_reset(returned)
    except Misfit as error:
        raise Misfit(f"{name_of(env)}: {error}") from None
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        raise Misfit(f"{name_of(env)}: reset: {error}; want reset(self, *, seed=None, options=None)") from error
    return returned


def checked_step(env: Any, action: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return the five values of a step; raise `Misfit` that names the environment if they are not five."""
    returned = env.step(action)
    try:
        check_step(returned)
    except Misfit as error:
        raise Misfit(f"{name_of(env)}: {error}") from None
    return returned


def check_reset(returned: Any) -> None:
    """Raise `Misfit` unless a reset returned a pair."""
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise Misfit(f"reset: got {shown_value(returned)}, want (observation, info), as in Gymnasium")


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
