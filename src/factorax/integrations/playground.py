"""MuJoCo Playground: robots and the DeepMind Control Suite in JAX, with reward terms that add up as targets."""

from functools import partial
from typing import Any

from ..problems.problem import Problem
from ._jax_environments import Package
from .brax import robot_problem

_PLAYGROUND = Package("playground", "MuJoCo Playground", "CartpoleBalance")


def named(text: str) -> Problem:
    """Return the problem named ``playground:NAME,setting=value``, given the text after the colon.

    Nothing is downloaded for a name, which may come from an untrusted file.
    """
    name, settings = _PLAYGROUND.parse(text)
    package = _PLAYGROUND.load("mujoco_playground")
    menagerie = _PLAYGROUND.load("mujoco_playground._src.mjx_env").MENAGERIE_PATH
    # The Control Suite comes with its models.
    is_robot = name in package.registry.ALL_ENVS and name not in package.dm_control_suite.ALL_ENVS
    if is_robot and not menagerie.exists():
        raise ValueError(
            f"problem: got 'playground:{name}', which needs the models of MuJoCo Menagerie, which are not installed; "
            f"run mujoco_playground.registry.load({name!r}) once, which downloads them"
        )
    return from_playground(name, **settings)


def from_playground(
    env: Any, *, episode_length: int | None = None, terms: bool | None = None, network: Any = None, **settings: Any
) -> Problem:
    """Return a MuJoCo Playground environment as a problem.

    **Arguments**

    - `env`: a name such as ``"CartpoleBalance"``, or a MuJoCo Playground environment without training wrappers.
    - `episode_length`: steps after which an episode is truncated; by default that of the environment's configuration.
    - `terms`, `network`: as in `from_brax`. Many rewards of the Playground are products of their terms (the Control
      Suite), or scaled and clipped sums (most robots). Such terms do not add up to the reward, which is then the only
      target; with ``terms=True`` the terms are targets, with an additional target ``other`` for the rest.
    - `settings`: values to override in the environment's configuration, such as ``ctrl_dt=0.02``. ``impl`` is ``"jax"``
      by default, because ``"warp"``, the default of some environments, runs only on NVIDIA devices.

    Robots need the models of MuJoCo Menagerie, which MuJoCo Playground downloads when it first loads one.

    **The problem** is as in `from_brax`.
    """
    package = _PLAYGROUND.load("mujoco_playground")
    registry, name = package.registry, env if isinstance(env, str) else type(env).__name__

    def load(name: str, **overrides: Any) -> Any:
        config = registry.get_default_config(name)
        if "impl" in config:  # older environments know only JAX
            overrides = {"impl": "jax"} | overrides
        return registry.load(name, config, overrides or None)

    builders = {name: partial(load, name) for name in registry.ALL_ENVS}
    env = _PLAYGROUND.environment(env, settings, builders, package.MjxEnv)
    # An environment of the user may have no configuration: it then has no limit.
    configured = getattr(getattr(env, "_config", None), "episode_length", None)
    return robot_problem(
        env,
        f"playground:{name}",
        episode_length=configured if episode_length is None else episode_length,
        terms=terms,
        network=network,
        model=env.mj_model,
    )
