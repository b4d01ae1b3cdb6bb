"""Code shared by the adapters of JAX environments: packages, names with settings, spaces, and problems."""

import io
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from unittest.mock import patch

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from .._lazy import import_quietly
from .._text import did_you_mean, shown
from ..problems.families import MAX_FACTORS, MAX_STEPS, parse_settings
from ..problems.problem import Problem, Step
from ..spaces import ActionSpace
from ..structure import InfluenceNetwork
from .factors import Rows, fit


class Package(NamedTuple):
    """A package of JAX environments in the extra ``jax-envs``."""

    prefix: str
    """The prefix of names of its problems, such as ``brax``."""
    title: str
    """Its name in messages."""
    example: str
    """The name of one of its environments."""

    def load(self, module: str) -> Any:
        """Import a module of the package while suppressing its output and warnings."""
        sink = io.StringIO()
        try:
            # All four: JaxMARL executes ``sys.stdout = sys.__stdout__`` while it is imported, and prints.
            with patch.multiple(sys, stdout=sink, stderr=sink, __stdout__=sink, __stderr__=sink):
                return import_quietly(module)
        except ImportError as error:
            raise ImportError(
                f"{error}; environments of {self.title} need the extra packages of factorax[jax-envs]: "
                "pip install 'factorax[jax-envs]'"
            ) from error

    def by_name(self, from_package: Callable[..., Problem]) -> Callable[[str], Problem]:
        """Return the function that maps ``NAME,setting=value`` to a problem, with which the family is registered."""

        def named(text: str) -> Problem:
            name, settings = self.parse(text)
            return from_package(name, **settings)

        return named

    def parse(self, text: str) -> tuple[str, dict[str, Any]]:
        """Return the name and the settings in ``NAME,setting=value,…``, the text after the colon of a problem's name.

        >>> Package("gymnax", "Gymnax", "CartPole-v1").parse("CartPole-v1,max_steps_in_episode=200")
        ('CartPole-v1', {'max_steps_in_episode': 200})
        """
        name, *pairs = text.split(",")
        if not name:
            raise ValueError(
                f"problem: got {f'{self.prefix}:{text}'!r}, want the name of an environment, as in "
                f"{self.prefix}:{self.example}"
            )
        settings = parse_settings(pairs)
        for setting, value in settings.items():
            # Names may come from untrusted files: no number may ask for an unlimited amount of memory.
            most = MAX_FACTORS if setting.startswith("num_") else MAX_STEPS
            if isinstance(value, int | float) and not abs(value) <= most:
                raise ValueError(f"problem: got {setting}={value}, want at most {most:,} for a problem by name")
        return name, settings

    def environment(
        self,
        env: Any,
        settings: dict[str, Any],
        builders: Mapping[str, Callable[..., Any]],
        kind: type | tuple[str, ...],
    ) -> Any:
        """Return an environment: one that was passed, without settings, or ``builders[env](**settings)``.

        - `kind`: the class of the environments of the package, or attributes that they have.
        """
        want = f"want a {self.title} environment or its name"
        if not isinstance(env, str):
            missing = [name for name in kind if not hasattr(env, name)] if isinstance(kind, tuple) else []
            if missing:
                raise TypeError(f"env: got {shown(env)}, which has no {missing[0]}; {want}")
            if isinstance(kind, type) and not isinstance(env, kind):
                raise TypeError(f"env: got {shown(env)}, {want}")
            for setting in settings:
                raise TypeError(f"{setting}: got a setting with an environment object; want settings only with a name")
            return env
        if env not in builders:
            raise ValueError(
                f"env: got {shown(env)}, want the name of a {self.title} environment, as in {self.example!r}"
                f"{did_you_mean(env, builders, quoted=True)}"
            )
        try:
            return quietly(builders[env], **settings)
        except (TypeError, ValueError, KeyError, AssertionError) as error:
            if not settings:  # not an error of the user
                raise
            raise ValueError(
                f"settings: got {shown(settings)}, want settings of the {self.title} environment; "
                f"{', '.join(settings)}: {error}"
            ) from error


def quietly(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call a function without its warnings: Brax warns of its own deprecation and of old names in MuJoCo."""
    with warnings.catch_warnings(action="ignore"):
        return function(*arguments, **named)


# ---- problems -------------------------------------------------------------------------------------------


def problem_of(
    name: str,
    reset: Callable[[jax.Array], tuple[Any, Any]],
    step: Callable[[jax.Array, Any, Any], Step],
    *,
    observation_space: gym.Space,
    action_space: gym.Space,
    network: InfluenceNetwork,
    observe: Callable[[Any], Any] | None = None,
    local: Callable[[Any], Any] | None = None,
) -> Problem:
    """Return a problem whose `reset` and `step` are those of an environment, in the types that the learner expects.

    The reward that `step` returns may be a scalar, and its flags may be numbers; an end counts as truncated only if it
    is not terminated.

    - `observe`: converts an observation to an element of `observation_space`; by default `as_element`.
    """
    convert = observe or (lambda obs: as_element(observation_space, obs))

    def typed_reset(key: jax.Array) -> tuple[Any, Any]:
        state, obs = quietly(reset, plain_key(key))
        return strongly_typed(state), convert(obs)

    def typed_step(key: jax.Array, state: Any, action: Any) -> Step:
        # A copy of the state, because some environments write into its dictionaries.
        new = quietly(step, plain_key(key), jax.tree.map(lambda leaf: leaf, state), action)
        terminated = scalar_flag(new.terminated)
        return new._replace(
            state=strongly_typed(new.state),
            obs=convert(new.obs),
            psi=jnp.ravel(new.psi).astype(jnp.float32),
            terminated=terminated,
            truncated=scalar_flag(new.truncated) & ~terminated,
        )

    return Problem(
        name=name,
        reset=typed_reset,
        step=typed_step,
        observation_space=observation_space,
        action_space=action_space,
        network=network,
        weights=np.ones(network.shape[1]),
        local=local,
    )


def reset_shapes(reset: Callable[..., Any], *arguments: Any) -> Any:
    """Return the shapes and types of what a reset of an environment returns, without compiling it."""
    return quietly(jax.eval_shape, reset, plain_key(jax.random.key(0)), *arguments)


def plain_key(key: jax.Array) -> jax.Array:
    """Return a key as the array of integers that older packages expect; it draws the same numbers."""
    return jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key


def strongly_typed(tree: Any) -> Any:
    """Return a pytree of arrays without weak types, so that the state has the same types after a reset as after a step
    and programs are compiled once."""
    return jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, jnp.asarray(leaf).dtype), tree)


def scalar_flag(value: Any) -> jax.Array:
    """Return a flag, which may be a number or have an axis of length one, as a boolean of shape ``()``."""
    return jnp.reshape(jnp.asarray(value).astype(bool), ())


def network_for(
    network: Any, action_space: gym.Space, targets: tuple[str, ...], names: tuple[str, ...] | None = None
) -> InfluenceNetwork:
    """Return the given network, checked and labelled with the names of the environment; by default the complete one.

    - `names`: the names of the components of the action space, if they have any.
    """
    rows = Rows.of(action_space) if names is None else Rows(names, (1,) * len(ActionSpace.of(action_space)))
    return fit(network, rows, "elements", len(targets), targets)


# ---- spaces ---------------------------------------------------------------------------------------------


def box(low: Any, high: Any, shape: Iterable[int], dtype: Any = np.float32) -> gym.spaces.Space:
    """Return the Gymnasium space of arrays within bounds, which may be numbers; a MultiBinary for booleans."""
    shape, dtype = tuple(int(n) for n in shape), np.dtype(dtype)
    if dtype.kind == "b":  # Gymnasium's Box has no booleans
        return gym.spaces.MultiBinary(shape) if shape else gym.spaces.Discrete(2)
    bounds = [np.broadcast_to(np.asarray(bound), shape) for bound in (low, high)]
    if dtype.kind in "iu":  # infinite bounds become those of the type: a cast of infinity to an integer is undefined
        bounds = [np.clip(bound, np.iinfo(dtype).min, np.iinfo(dtype).max) for bound in bounds]
    return gym.spaces.Box(bounds[0].astype(dtype), bounds[1].astype(dtype), shape, dtype.type)


def space_of(space: Any, title: str, like: Any = None) -> gym.spaces.Space:
    """Return a Gymnax or JaxMARL space as a Gymnasium space.

    - `like`: an element, or its shapes and types. Integer spaces with float elements become float spaces.
    """
    kind = type(space).__name__  # by name: Gymnax and JaxMARL have classes of their own with the same names
    if isinstance(space, gym.spaces.Space):
        return space
    if kind == "Discrete":
        return gym.spaces.Discrete(int(space.n))
    if kind == "MultiDiscrete":
        return gym.spaces.MultiDiscrete(np.asarray(space.num_categories))
    if kind == "Box":
        # Catch of Gymnax declares integers and returns floats, which a cast to integers would round.
        dtype = space.dtype if like is None or np.dtype(space.dtype).kind == "f" else like.dtype
        return box(space.low, space.high, space.shape, dtype)
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
