"""MuJoCo Playground: robots and the DeepMind Control Suite in JAX; terms of the reward that add up are targets."""

from typing import Any

from ..problems.problem import Problem
from ._jax_environments import check_known, import_package, made, name_and_settings
from ._reward_terms import check_environment, problem_of

_EXAMPLE = "CartpoleBalance"


def named(text: str) -> Problem:
    """Return the problem that ``playground:NAME,setting=value`` names, from the text after the colon.

    Nothing is downloaded for a name, which may come from a file of someone else.
    """
    name, settings = name_and_settings("playground", text, _EXAMPLE)
    package = import_package("mujoco_playground", "MuJoCo Playground")
    menagerie = import_package("mujoco_playground._src.mjx_env", "MuJoCo Playground").MENAGERIE_PATH
    is_robot = name in package.registry.ALL_ENVS and name not in package.dm_control_suite.ALL_ENVS
    if is_robot and not menagerie.exists():
        raise ValueError(
            f"problem: got 'playground:{name}', which needs the models of MuJoCo Menagerie, and they are not here; use "
            f"mujoco_playground.registry.load({name!r}) once, which downloads them"
        )
    return from_playground(name, **settings)


def from_playground(
    env: Any,
    *,
    episode_length: int | None = None,
    terms: bool | None = None,
    network: Any = None,
    **settings: Any,
) -> Problem:
    """Return an environment of MuJoCo Playground as a problem.

    **Arguments**

    - `env`: a name, as in ``"CartpoleBalance"``, or an environment of MuJoCo Playground without the wrappers of
      training.
    - `episode_length`: steps after which an episode is truncated; that of the environment's configuration if left out.
    - `terms`, `network`: as in `from_brax`. Many rewards of the Playground are products of their terms (the Control
      Suite), or sums that are scaled and clipped (most robots). Such terms do not add up to the reward, which is then
      the only target; with ``terms=True`` the terms are targets, and one more, ``other``, is the reward less their sum.
    - `settings`: what to override in the environment's configuration, as in ``ctrl_dt=0.02``. ``impl`` is ``"jax"`` if
      left out: the default of some environments, ``"warp"``, runs only on NVIDIA's devices.

    Robots need the models of MuJoCo Menagerie, which MuJoCo Playground downloads when it first loads one.

    **The problem** is as that of `from_brax`.
    """
    package = import_package("mujoco_playground", "MuJoCo Playground")
    name = env if isinstance(env, str) else type(env).__name__
    if isinstance(env, str):
        check_known(env, package.registry.ALL_ENVS, "MuJoCo Playground", _EXAMPLE)
        config = package.registry.get_default_config(env)
        if "impl" in config:
            settings = {"impl": "jax"} | settings
        env = made(lambda **given: package.registry.load(name, config, given or None), "MuJoCo Playground", settings)
    elif settings:
        raise TypeError(f"{next(iter(settings))}: got it with an environment; give settings with a name, or leave it")
    check_environment(env, package.MjxEnv, "MuJoCo Playground")
    own = getattr(getattr(env, "_config", None), "episode_length", None)
    return problem_of(
        env,
        f"playground:{name}",
        episode_length=own if episode_length is None else episode_length,
        terms=terms,
        network=network,
        model=env.mj_model,
    )
