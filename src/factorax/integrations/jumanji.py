"""Jumanji: combinatorial problems and games in JAX; rewards of several agents become separate targets."""

import math
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_type
from .._text import shown
from ..problems.problem import Problem, Step
from ..spaces import ActionSpace
from ._jax_environments import (
    as_element,
    box,
    env_of,
    import_package,
    name_and_settings,
    network_for,
    plain_key,
    strongly_typed,
)

_MASK = "action_mask"
_JOINT = "joint_action_mask"
"""Name of a mask that cannot be applied to each component of an action."""


def named(text: str) -> Problem:
    """Return the problem named ``jumanji:NAME,setting=value``, given the text after the colon."""
    name, settings = name_and_settings("jumanji", text, "Snake-v1")
    return from_jumanji(name, **settings)


def from_jumanji(env: Any, *, network: Any = None, **settings: Any) -> Problem:
    """Return a Jumanji environment as a problem.

    **Arguments**

    - `env`: a name such as ``"Snake-v1"``, or a Jumanji environment without autoreset.
    - `network`: which component of the action influences which target, as a matrix or an `InfluenceNetwork`. By default
      each may influence each, which is always unbiased.
    - `settings`: arguments of the environment, such as ``num_rows=6``.

    **The problem**

    - **Observation**: a Dict with the parts that the environment declares, as arrays of their own shapes; a Box if it
      declares one array.
    - **Action**: Discrete, MultiDiscrete or Box. Jumanji's `action_mask` is part of the observation; actions that it
      excludes are never chosen. A mask without one flag per choice of each component cannot be applied, such as that of
      Minesweeper over combinations of rows and columns: it is observed as ``joint_action_mask``.
    - **Targets**: the reward, or one target per entry if it is an array, as with several agents.
    - **End**: at a last step with discount 0 the episode is terminated, with a discount above 0 truncated. Most Jumanji
      environments report their time limit as termination, and have the number of steps in the observation. If there is
      one discount per target, a target with discount 0 has ended (`Step.target_terminated`).
    """
    jumanji = import_package("jumanji", "Jumanji")
    name = env if isinstance(env, str) else type(env).__name__
    known, build = jumanji.registered_environments(), lambda **options: jumanji.make(name, **options)
    env = env_of(env, settings, sorted(known), build, "Jumanji", "Snake-v1")
    check_type("env", env, jumanji.Environment, "a Jumanji environment or its name")
    if "AutoReset" in type(env).__name__:
        raise TypeError(
            f"env: got {type(env).__name__}, want it without this wrapper, because the learner resets; pass "
            "env.unwrapped"
        )
    specs = import_package("jumanji.specs", "Jumanji")
    action_space = _actions(env.action_spec, specs)
    own_space = _space(env.observation_spec, specs)
    is_joint = _mask_is_joint(own_space, action_space)

    def renamed(parts: Any) -> dict[str, Any]:
        return {_JOINT if name == _MASK else name: part for name, part in parts.items()}

    observation_space = gym.spaces.Dict(renamed(own_space)) if is_joint else own_space

    def observe(observation: Any) -> Any:
        element = as_element(own_space, observation)
        return renamed(element) if is_joint else element

    m = math.prod(env.reward_spec.shape)
    has_parts = bool(env.reward_spec.shape)
    has_own_ends = has_parts and math.prod(env.discount_spec.shape) == m
    last = import_package("jumanji.types", "Jumanji").StepType.LAST

    def reset(key: jax.Array) -> tuple[Any, Any]:
        state, first = env.reset(plain_key(key))
        return strongly_typed(state), observe(first.observation)

    def step(key: jax.Array, state: Any, action: Any) -> Step:
        state, new = env.step(state, action)
        over, no_future = new.step_type == last, jnp.asarray(new.discount) == 0
        terminated = over & jnp.all(no_future)
        return Step(
            state=strongly_typed(state),
            obs=observe(new.observation),
            psi=jnp.ravel(new.reward).astype(jnp.float32),
            terminated=terminated,
            truncated=over & ~terminated,
            target_terminated=jnp.ravel(no_future) if has_own_ends else None,
        )

    targets = tuple(f"reward_{j}" for j in range(m)) if has_parts else ("reward",)
    return Problem(
        name=f"jumanji:{name}",
        reset=reset,
        step=step,
        observation_space=observation_space,
        action_space=action_space,
        network=network_for(network, action_space, targets),
        weights=np.ones(m),
    )


def _space(spec: Any, specs: Any) -> gym.Space:
    """Return a Jumanji specification as a Gymnasium space; one with parts becomes a Dict."""
    if isinstance(spec, specs.DiscreteArray):
        return gym.spaces.Discrete(int(spec.num_values))
    if isinstance(spec, specs.BoundedArray):
        return box(spec.minimum, spec.maximum, spec.shape, spec.dtype)
    if isinstance(spec, specs.Array):
        return box(-np.inf, np.inf, spec.shape, spec.dtype)
    parts = {name: part for name, part in vars(spec).items() if isinstance(part, specs.Spec)}
    if not parts:
        raise TypeError(f"env: has the specification {shown(spec)}, want arrays, or a structure of arrays")
    return gym.spaces.Dict({name: _space(part, specs) for name, part in parts.items()})


def _mask_is_joint(space: gym.Space, action_space: gym.Space) -> bool:
    """Return whether there is an action mask without one flag per choice of each component."""
    if not isinstance(space, gym.spaces.Dict) or _MASK not in space.spaces:
        return False
    components = ActionSpace.of(action_space)
    return math.prod(space[_MASK].shape or ()) != int(np.sum(components.choices[components.discrete]))


def _actions(spec: Any, specs: Any) -> gym.Space:
    """Return the action space; integers become discrete choices."""
    if isinstance(spec, specs.DiscreteArray) or not isinstance(spec, specs.BoundedArray):
        return _space(spec, specs)
    if np.dtype(spec.dtype).kind == "f":
        return box(spec.minimum, spec.maximum, spec.shape)
    low, high = (np.broadcast_to(np.asarray(bound), spec.shape).astype(int) for bound in (spec.minimum, spec.maximum))
    return gym.spaces.MultiDiscrete(high - low + 1, start=low)
