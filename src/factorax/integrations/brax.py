"""Brax: physics simulation in JAX, as problems with the terms of the reward as targets."""

from typing import Any

from ..problems.problem import Problem
from ._jax_environments import env_of, import_package, name_and_settings
from ._reward_terms import check_environment, problem_of

_ADD_UP = ("Ant", "Halfcheetah", "Hopper", "Humanoid", "Reacher", "Walker2d")
"""Brax classes whose terms always add up to the reward."""


def named(text: str) -> Problem:
    """Return the problem named ``brax:NAME,setting=value``, given the text after the colon."""
    name, settings = name_and_settings("brax", text, "ant")
    return from_brax(name, **settings)


def from_brax(
    env: Any, *, episode_length: int | None = 1000, terms: bool | None = None, network: Any = None, **settings: Any
) -> Problem:
    """Return a Brax environment as a problem with the terms of the reward as targets.

    **Arguments**

    - `env`: a name such as ``"ant"``, or a Brax environment without the training wrappers (`EpisodeWrapper`,
      `VmapWrapper`, `AutoResetWrapper`).
    - `episode_length`: steps after which an episode is truncated; None for no limit.
    - `terms`: whether the terms of the reward are targets. By default they are if they add up to the reward, which is
      tested in a short run unless it is known; otherwise the reward is the only target. True: always, with an
      additional target ``other`` for the rest of the reward. False: never.
    - `network`: which action influences which target, as a matrix or an `InfluenceNetwork`. By default every action may
      influence every target, which is always unbiased.
    - `settings`: arguments of the environment, such as ``backend="spring"``.

    **The problem**

    - **Observation**: that of the environment, without bounds.
    - **Action**: a Box from −1 to 1, with components named after the actuators or their joints.
    - **Targets**: the metrics with names that begin with ``reward``, such as ``ctrl`` from ``reward_ctrl``. Other
      metrics, such as ``x_position``, are not rewards.
    - **End**: terminated if the environment is done, truncated after `episode_length` steps.
    """
    envs = import_package("brax.envs", "Brax")
    name = env if isinstance(env, str) else type(env).__name__
    env = env_of(env, settings, envs._envs, lambda **options: envs._envs[name](**options), "Brax", "ant")
    check_environment(env, envs.Env, "Brax")
    is_known = type(env).__module__.startswith("brax.envs.") and type(env).__name__ in _ADD_UP
    return problem_of(
        env,
        f"brax:{name}",
        episode_length=episode_length,
        terms=terms,
        network=network,
        adds_up=True if is_known else None,
        model=getattr(getattr(env, "sys", None), "mj_model", None),
    )
