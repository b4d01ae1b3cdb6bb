"""Brax: physics in JAX, as problems whose targets are the terms of the reward."""

from typing import Any

from ..problems.problem import Problem
from ._jax_environments import check_known, import_package, made, name_and_settings
from ._reward_terms import check_environment, problem_of

_ADD_UP = ("Ant", "Halfcheetah", "Hopper", "Humanoid", "Reacher", "Walker2d")
"""Classes of Brax whose terms add up to the reward, whatever their settings are."""


def named(text: str) -> Problem:
    """Return the problem that ``brax:NAME,setting=value`` names, from the text after the colon."""
    name, settings = name_and_settings("brax", text, "ant")
    return from_brax(name, **settings)


def from_brax(
    env: Any, *, episode_length: int | None = 1000, terms: bool | None = None, network: Any = None, **settings: Any
) -> Problem:
    """Return an environment of Brax as a problem: the terms of the reward are targets.

    **Arguments**

    - `env`: a name, as in ``"ant"``, or an environment of Brax without the wrappers of training (`EpisodeWrapper`,
      `VmapWrapper`, `AutoResetWrapper`).
    - `episode_length`: steps after which an episode is truncated; None for no limit.
    - `terms`: whether the terms of the reward are targets. Left out: if they add up to the reward, which is tried out
      in a short run for environments that are not known to do so; else the reward is the only target. True: always;
      one more target, ``other``, holds what they leave of the reward. False: never.
    - `network`: which action influences which target, as a matrix or an `InfluenceNetwork`. Left out, every action may
      influence every target, which is always right.
    - `settings`: arguments of the environment, as in ``backend="spring"``.

    **The problem**

    - **Observation**: as of the environment, without bounds.
    - **Action**: a Box from −1 to 1, named after the actuators or the joints that they move.
    - **Targets**: the metrics whose names begin with ``reward``, as ``ctrl`` from ``reward_ctrl``. Other metrics, such
      as ``x_position``, are no rewards.
    - **End**: terminated if the environment is done, truncated after `episode_length` steps.
    """
    envs = import_package("brax.envs", "Brax")
    name = env if isinstance(env, str) else type(env).__name__
    if isinstance(env, str):
        check_known(env, envs._envs, "Brax", "ant")
        env = made(envs._envs[env], "Brax", settings)
    elif settings:
        raise TypeError(f"{next(iter(settings))}: got it with an environment; give settings with a name, or leave it")
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
