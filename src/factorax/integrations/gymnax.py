"""Gymnax: single-agent JAX environments, as problems with one target, the reward."""

import dataclasses
import inspect
from typing import Any

import jax

from .._checks import check_options, check_type
from ..problems.problem import Problem, Step
from ._jax_environments import Package, network_for, problem_of, reset_shapes, space_of

_GYMNAX = Package("gymnax", "Gymnax", "CartPole-v1")
_ATTRIBUTES = ("reset", "step", "default_params", "observation_space", "action_space")


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
    gymnax, base = _GYMNAX.load("gymnax"), _GYMNAX.load("gymnax.environments.environment")
    classes = _GYMNAX.load("gymnax.registration")._registry
    builders = {name: classes[name] for name in gymnax.registered_envs}
    accepted = inspect.signature(builders[env]).parameters if isinstance(env, str) and env in builders else {}
    of_class = {name: settings.pop(name) for name in list(settings) if name in accepted}
    env = _GYMNAX.environment(env, of_class, builders, _ATTRIBUTES)
    params = env.default_params if params is None else params
    check_type("params", params, base.EnvParams, "the parameters of a Gymnax environment, such as its default_params")
    check_options(settings, [field.name for field in dataclasses.fields(params)], "the environment")
    params = dataclasses.replace(params, **settings)
    has_wrappers = not isinstance(env, base.Environment)
    observation_space = space_of(env.observation_space(params), "Gymnax", reset_shapes(env.reset, params)[0])
    action_space = space_of(env.action_space(params), "Gymnax")

    def reset(key: jax.Array) -> tuple[Any, Any]:
        obs, state = env.reset(key, params) if has_wrappers else env.reset_env(key, params)
        return state, obs

    def step(key: jax.Array, state: Any, action: Any) -> Step:
        if has_wrappers:
            # Wrappers only change `step`, which also resets: the last observation is in `info`, and the new state is
            # not used after the end of an episode.
            _, state, reward, terminated, truncated, info = env.step(key, state, action, params)
            return Step(state, info["final_observation"], reward, terminated, truncated)
        key, _ = jax.random.split(key)  # as `env.step` does, so that both draw the same numbers
        obs, state, reward, terminated, _ = env.step_env(key, state, action, params)
        return Step(state, obs, reward, terminated, env.is_truncated(state, params))

    return problem_of(
        f"gymnax:{env.name}",
        reset,
        step,
        observation_space=observation_space,
        action_space=action_space,
        network=network_for(None, action_space, ("reward",)),
    )


named = _GYMNAX.by_name(from_gymnax)
