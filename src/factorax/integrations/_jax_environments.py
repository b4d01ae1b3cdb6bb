"""Code shared by the adapters of JAX environments: imports, names with settings, spaces, and networks."""

import contextlib
import io
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from .._lazy import import_quietly
from .._text import did_you_mean, shown
from ..problems.families import MAX_FACTORS, MAX_STEPS, parse_settings
from ..spaces import ActionSpace
from ..structure import InfluenceNetwork
from .factors import Rows, fit


def import_package(module: str, title: str) -> Any:
    """Import a module of a package of the extra ``jax-envs`` while suppressing its output and warnings."""
    try:
        with _silence():
            return import_quietly(module)
    except ImportError as error:
        raise ImportError(
            f"{error}; environments of {title} need the extra packages of factorax[jax-envs]: "
            "pip install 'factorax[jax-envs]'"
        ) from error


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Suppress all output, even after ``sys.stdout = sys.__stdout__``, which JaxMARL executes at import."""
    names = ("stdout", "stderr", "__stdout__", "__stderr__")
    before = [getattr(sys, name) for name in names]
    try:
        for name in names:
            setattr(sys, name, io.StringIO())
        yield
    finally:
        for name, stream in zip(names, before, strict=True):
            setattr(sys, name, stream)


def check_known(name: str, known: Iterable[str], title: str, example: str) -> None:
    """Raise ValueError for an unknown name, and suggest the nearest known one."""
    known = list(known)
    if name not in known:
        raise ValueError(
            f"env: got {shown(name)}, want the name of a {title} environment, as in {example!r}"
            f"{did_you_mean(name, known, quoted=True)}"
        )


def env_of(
    env: Any, settings: dict[str, Any], known: Iterable[str], build: Callable[..., Any], title: str, example: str
) -> Any:
    """Return an environment: one that was passed, without settings, or ``build(**settings)`` if `env` is a name."""
    if isinstance(env, str):
        check_known(env, known, title, example)
        return made(build, title, settings)
    for setting in settings:
        raise TypeError(f"{setting}: got a setting with an environment object; want settings only with a name")
    return env


def made(build: Any, title: str, settings: dict[str, Any]) -> Any:
    """Return `build(**settings)` without its warnings: Brax and MABrax warn that they are no longer developed.

    Raises ValueError for settings that the environment does not accept.
    """
    try:
        return quietly(build, **settings)
    except (TypeError, ValueError, KeyError, AssertionError) as error:
        if not settings:
            raise
        names = ", ".join(settings)
        raise ValueError(
            f"settings: got {shown(settings)}, want settings of the {title} environment; {names}: {error}"
        ) from error


def quietly(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call a function without its warnings, such as those about deprecated MuJoCo names in Brax."""
    with warnings.catch_warnings(action="ignore"):
        return function(*arguments, **named)


def name_and_settings(prefix: str, text: str, example: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the settings in ``NAME,setting=value,…``, the text after the colon of a problem's name.

    Names may come from untrusted files, so numbers that would take an unlimited amount of memory are rejected.

    >>> name_and_settings("gymnax", "CartPole-v1,max_steps_in_episode=200", "CartPole-v1")
    ('CartPole-v1', {'max_steps_in_episode': 200})
    """
    name, *pairs = text.split(",")
    if not name:
        raise ValueError(
            f"problem: got {f'{prefix}:{text}'!r}, want the name of an environment, as in {prefix}:{example}"
        )
    settings = parse_settings(pairs)
    for setting, value in settings.items():
        most = MAX_FACTORS if setting.startswith("num_") else MAX_STEPS
        if isinstance(value, int | float) and not abs(value) <= most:
            raise ValueError(f"problem: got {setting}={value}, want at most {most:,} for a problem by name")
    return name, settings


def plain_key(key: jax.Array) -> jax.Array:
    """Return a key as the array of integers that older packages expect; it draws the same numbers."""
    return jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key


def strongly_typed(tree: Any) -> Any:
    """Return a pytree of arrays without weak types, so that the state has the same types after a reset as after a step
    and programs are compiled once."""

    def strong(leaf: Any) -> jax.Array:
        array = jnp.asarray(leaf)
        is_key = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
        return array if is_key else jax.lax.convert_element_type(array, array.dtype)

    return jax.tree.map(strong, tree)


def scalar_flag(value: Any) -> jax.Array:
    """Return a flag, which may be a number or have an axis of length one, as a boolean of shape ``()``."""
    return jnp.reshape(jnp.asarray(value).astype(bool), ())


# ---- spaces ---------------------------------------------------------------------------------------------


def box(low: Any, high: Any, shape: Iterable[int], dtype: Any = np.float32) -> gym.spaces.Space:
    """Return the Gymnasium space of arrays within bounds, which may be numbers; a MultiBinary for booleans."""
    shape, dtype = tuple(int(n) for n in shape), np.dtype(dtype)
    if dtype.kind == "b":
        return gym.spaces.MultiBinary(shape) if shape else gym.spaces.Discrete(2)
    bounds = [np.broadcast_to(np.asarray(bound), shape) for bound in (low, high)]
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        bounds = [np.clip(bound, limits.min, limits.max) for bound in bounds]
    return gym.spaces.Box(bounds[0].astype(dtype), bounds[1].astype(dtype), shape, dtype.type)


def space_of(space: Any, title: str, like: Any = None) -> gym.spaces.Space:
    """Return a Gymnax or JaxMARL space as a Gymnasium space.

    - `like`: an element, or its shapes and types. Integer spaces with float elements become float spaces.
    """
    kind = type(space).__name__
    if isinstance(space, gym.spaces.Space):
        return space
    if kind == "Discrete":
        return gym.spaces.Discrete(int(space.n))
    if kind == "MultiDiscrete":
        return gym.spaces.MultiDiscrete(np.asarray(space.num_categories))
    if kind == "Box":
        dtype = np.dtype(space.dtype)
        actual = None if like is None else np.dtype(like.dtype)
        return box(space.low, space.high, space.shape, actual if actual and dtype.kind != "f" else dtype)
    if kind == "Dict":
        parts = {name: None if like is None else part_of(like, name) for name in space.spaces}
        return gym.spaces.Dict({name: space_of(part, title, parts[name]) for name, part in space.spaces.items()})
    if kind == "Tuple":
        parts = [None] * len(space.spaces) if like is None else list(like)
        return gym.spaces.Tuple([space_of(part, title, of) for part, of in zip(space.spaces, parts, strict=True)])
    raise TypeError(f"env: has the space {shown(space)}, want a {title} Discrete, MultiDiscrete, Box, Dict or Tuple")


def part_of(observation: Any, name: str) -> Any:
    """Return a part of an observation that is a dictionary or has attributes."""
    return observation[name] if isinstance(observation, dict) else getattr(observation, name)


def as_element(space: gym.spaces.Space, observation: Any) -> Any:
    """Return an observation as an element of a Gymnasium space, in JAX arrays."""
    if isinstance(space, gym.spaces.Dict):
        return {name: as_element(part, part_of(observation, name)) for name, part in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(as_element(part, of) for part, of in zip(space.spaces, observation, strict=True))
    dtype = jax.dtypes.canonicalize_dtype(space.dtype or np.float32)
    return jax.lax.convert_element_type(jnp.asarray(observation), dtype)


# ---- networks -------------------------------------------------------------------------------------------


def network_for(
    network: Any, action_space: gym.Space, targets: tuple[str, ...], names: tuple[str, ...] | None = None
) -> InfluenceNetwork:
    """Return the given network, checked and labelled with the names of the environment; by default the complete one.

    - `names`: the names of the components of the action space, if they have any.
    """
    n = len(ActionSpace.of(action_space))
    rows = Rows(names, (1,) * n) if names is not None else Rows.of(action_space)
    return fit(network, rows, "elements", len(targets), targets)


def distinct(names: Iterable[str]) -> tuple[str, ...] | None:
    """Return names as labels, or None if one is empty or occurs twice."""
    names = tuple(names)
    return names if all(names) and len(set(names)) == len(names) else None
