"""Jumanji: combinatorial problems and games in JAX; rewards of several agents become separate targets."""

import math
from functools import partial
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from .._text import shown
from ..problems.problem import Problem, Step
from ..spaces import ActionSpace
from ._jax_environments import Package, as_element, box, network_for, problem_of

_JUMANJI = Package("jumanji", "Jumanji", "Snake-v1")
_MASK = "action_mask"
_JOINT_MASK = "joint_action_mask"
"""Name of a mask that cannot be applied to each component of an action."""


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
    jumanji, specs, types = (_JUMANJI.load(name) for name in ("jumanji", "jumanji.specs", "jumanji.types"))
    name = env if isinstance(env, str) else type(env).__name__
    builders = {name: partial(jumanji.make, name) for name in sorted(jumanji.registered_environments())}
    env = _JUMANJI.environment(env, settings, builders, jumanji.Environment)
    if "AutoReset" in type(env).__name__:
        raise TypeError(
            f"env: got {type(env).__name__}, want it without this wrapper, because the learner resets; pass "
            "env.unwrapped"
        )
    action_space, declared_space = _action_space(env.action_spec, specs), _space(env.observation_spec, specs)
    is_joint = _has_joint_mask(declared_space, action_space)

    def rename(parts: Any) -> Any:
        return {_JOINT_MASK if name == _MASK else name: part for name, part in parts.items()} if is_joint else parts

    m = math.prod(env.reward_spec.shape)
    # A scalar discount ends the episode, not its only target.
    has_target_ends = bool(env.reward_spec.shape) and math.prod(env.discount_spec.shape) == m
    targets = tuple(f"reward_{j}" for j in range(m)) if env.reward_spec.shape else ("reward",)

    def reset(key: jax.Array) -> tuple[Any, Any]:
        state, first = env.reset(key)
        return state, first.observation

    def step(key: jax.Array, state: Any, action: Any) -> Step:
        state, new = env.step(state, action)
        is_last, no_future = new.step_type == types.StepType.LAST, jnp.asarray(new.discount) == 0
        terminated, ends = is_last & jnp.all(no_future), jnp.ravel(no_future) if has_target_ends else None
        return Step(state, new.observation, new.reward, terminated, is_last, target_terminated=ends)

    return problem_of(
        f"jumanji:{name}",
        reset,
        step,
        observation_space=gym.spaces.Dict(rename(declared_space)) if is_joint else declared_space,
        action_space=action_space,
        network=network_for(network, action_space, targets),
        observe=lambda observation: rename(as_element(declared_space, observation)),
    )


named = _JUMANJI.by_name(from_jumanji)


def _space(spec: Any, specs: Any) -> gym.Space:
    """Return a Jumanji specification as a Gymnasium space; one with parts becomes a Dict."""
    if isinstance(spec, specs.DiscreteArray):
        return gym.spaces.Discrete(int(spec.num_values))
    if isinstance(spec, specs.BoundedArray):
        return box(spec.minimum, spec.maximum, spec.shape, spec.dtype)
    if isinstance(spec, specs.Array):
        return box(-np.inf, np.inf, spec.shape, spec.dtype)
    # A structure has its parts as attributes too, which are public, unlike its dictionary.
    parts = {name: part for name, part in vars(spec).items() if isinstance(part, specs.Spec)}
    if not parts:
        raise TypeError(f"env: has the specification {shown(spec)}, want arrays, or a structure of arrays")
    return gym.spaces.Dict({name: _space(part, specs) for name, part in parts.items()})


def _action_space(spec: Any, specs: Any) -> gym.Space:
    """Return the action space; integers become discrete choices."""
    if isinstance(spec, specs.DiscreteArray) or not isinstance(spec, specs.BoundedArray):
        return _space(spec, specs)
    if np.dtype(spec.dtype).kind == "f":
        return box(spec.minimum, spec.maximum, spec.shape)  # always 32 bits, as policies have them
    low, high = (np.broadcast_to(np.asarray(bound), spec.shape).astype(int) for bound in (spec.minimum, spec.maximum))
    return gym.spaces.MultiDiscrete(high - low + 1, start=low)


def _has_joint_mask(space: gym.Space, action_space: gym.Space) -> bool:
    """Return whether there is an action mask without one flag per choice of each component."""
    if not isinstance(space, gym.spaces.Dict) or _MASK not in space.spaces:
        return False
    # The learner excludes choices of single components: it needs one flag for each of them.
    components = ActionSpace.of(action_space)
    return math.prod(space[_MASK].shape or ()) != int(np.sum(components.choices[components.discrete]))
