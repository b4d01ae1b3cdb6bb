"""Gymnax: single-agent JAX environments, as problems with one target, the reward."""

import dataclasses
import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_options, check_type
from .._text import shown
from ..problems.problem import Problem, Step
from ._jax_environments import (
    as_element,
    check_known,
    import_package,
    made,
    name_and_settings,
    network_for,
    scalar_flag,
    space_of,
    strongly_typed,
)

_NEEDED = ("reset", "step", "default_params", "observation_space", "action_space")


def named(text: str) -> Problem:
    """Return the problem named ``gymnax:NAME,setting=value``, given the text after the colon."""
    name, settings = name_and_settings("gymnax", text, "CartPole-v1")
    return from_gymnax(name, **settings)


def from_gymnax(env: Any, params: Any = None, **settings: Any) -> Problem:
    """Return a Gymnax environment (1.0 or newer) as a problem.

    **Arguments**

    - `env`: a name such as ``"CartPole-v1"``, or a Gymnax environment, possibly with Gymnax wrappers.
    - `params`: its parameters; by default its `default_params`.
    - `settings`: fields of the parameters, such as ``max_steps_in_episode=200``. With a name, also arguments of the
      environment's class, such as ``size=10`` for ``"DeepSea-bsuite"``.

    **The problem**

    - **Observation**, **action**: the spaces of the environment, converted to Gymnasium. Discrete and multi-dimensional
      observations keep their space and shape.
    - **Targets**: one, the reward. All components of the action influence it.
    - **End**: terminated as in the environment, truncated at ``params.max_steps_in_episode``. A step that does both
      counts as terminated. The learner, not the environment, resets episodes.

    A step with a key equals ``env.step`` with the same key.
    """
    gymnax = import_package("gymnax", "Gymnax")
    if isinstance(env, str):
        check_known(env, gymnax.registered_envs, "Gymnax", "CartPole-v1")
        build = import_package("gymnax.registration", "Gymnax")._registry[env]
        accepted = inspect.signature(build).parameters
        env = made(build, "Gymnax", {name: value for name, value in settings.items() if name in accepted})
        settings = {name: value for name, value in settings.items() if name not in accepted}
    elif missing := [name for name in _NEEDED if not hasattr(env, name)]:
        raise TypeError(f"env: got {shown(env)}, which has no {missing[0]}; want a Gymnax environment or its name")
    params = env.default_params if params is None else params
    base = import_package("gymnax.environments.environment", "Gymnax")
    check_type("params", params, base.EnvParams, "the parameters of a Gymnax environment, such as its default_params")
    check_options(settings, [field.name for field in dataclasses.fields(params)], "the environment")
    params = dataclasses.replace(params, **settings)
    return _problem(env, params, is_plain=isinstance(env, base.Environment))


def _problem(env: Any, params: Any, *, is_plain: bool) -> Problem:
    """Create the problem; `is_plain` tells that the environment has no wrappers and can be stepped without resets."""
    example, _ = jax.eval_shape(lambda key: env.reset(key, params), jax.random.key(0))
    observation_space = space_of(env.observation_space(params), "Gymnax", example)
    action_space = space_of(env.action_space(params), "Gymnax")

    def reset(key: jax.Array) -> tuple[Any, Any]:
        obs, state = env.reset_env(key, params) if is_plain else env.reset(key, params)
        return strongly_typed(state), as_element(observation_space, obs)

    def step(key: jax.Array, state: Any, action: Any) -> Step:
        if is_plain:
            key, _ = jax.random.split(key)  # as `env.step` does
            obs, state, reward, terminated, _ = env.step_env(key, state, action, params)
            truncated = env.is_truncated(state, params)
        else:
            # Wrappers only change `step`, which also resets: the last observation is in `info`, and the new state is
            # not used
            # after the end of an episode.
            _, state, reward, terminated, truncated, info = env.step(key, state, action, params)
            obs = info["final_observation"]
        terminated = scalar_flag(terminated)
        return Step(
            state=strongly_typed(state),
            obs=as_element(observation_space, obs),
            psi=jnp.reshape(reward, (1,)).astype(jnp.float32),
            terminated=terminated,
            truncated=scalar_flag(truncated) & ~terminated,
        )

    return Problem(
        name=f"gymnax:{env.name}",
        reset=reset,
        step=step,
        observation_space=observation_space,
        action_space=action_space,
        network=network_for(None, action_space, ("reward",)),
        weights=np.ones(1),
    )
