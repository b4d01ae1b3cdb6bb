"""Brax: physics simulation in JAX, as problems with the terms of the reward as targets."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box, Dict

from .._checks import Count, checked
from .._text import shown
from ..problems.problem import Problem, Step
from ._jax_environments import Package, box, network_for, plain_key, problem_of, quietly, reset_shapes, strongly_typed

_BRAX = Package("brax", "Brax", "ant")
_ADD_UP = ("Ant", "Halfcheetah", "Hopper", "Humanoid", "Reacher", "Walker2d")
"""Brax classes whose terms always add up to the reward."""
_TRAINING_WRAPPERS = ("VmapWrapper", "EpisodeWrapper", "AutoResetWrapper", "EvalWrapper", "BraxAutoResetWrapper")
"""Wrappers whose work the learner does itself."""
PREFIX = "reward"
"""Prefix of the metrics that are terms of the reward."""
CHECKED_STEPS = 32
"""Number of steps with random actions in which the sum of the terms is compared with the reward."""
_TOLERANCE = 1e-4


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
    envs = _BRAX.load("brax.envs")
    name = env if isinstance(env, str) else type(env).__name__
    env = _BRAX.environment(env, settings, envs._envs, envs.Env)
    is_known = type(env).__module__.startswith("brax.envs.") and type(env).__name__ in _ADD_UP
    return robot_problem(
        env,
        f"brax:{name}",
        episode_length=episode_length,
        terms=terms,
        network=network,
        add_up=True if is_known else None,
        model=getattr(getattr(env, "sys", None), "mj_model", None),
    )


named = _BRAX.by_name(from_brax)


def robot_problem(
    env: Any,
    name: str,
    *,
    episode_length: Any,
    terms: bool | None,
    network: Any,
    add_up: bool | None = None,
    model: Any = None,
) -> Problem:
    """Return an environment of Brax or MuJoCo Playground as a problem.

    Its `reset(key)` and `step(state, action)` return a state with `obs`, `reward`, `done` and `metrics`.

    - `terms`, `network`: as in `from_brax`.
    - `add_up`: whether the terms are known to add up to the reward; None if that must be tested.
    - `model`: a MuJoCo model with names of the actuators.
    """
    _check_wrappers(env)
    checked("terms", terms, bool | None)
    limit = checked("episode_length", episode_length, Count | None)
    example = reset_shapes(env.reset)
    # In alphabetical order, in which JAX has the keys of dictionaries once they went through a compiled function.
    metrics = _target_metrics(env, sorted(name for name in example.metrics if name.startswith(PREFIX)), terms, add_up)
    with_rest = bool(metrics) and terms is True and add_up is not True
    # ``reward_ctrl`` of Brax and ``reward/upright`` of the Playground become ctrl and upright.
    targets = tuple(metric.removeprefix(PREFIX).lstrip("_/") or metric for metric in metrics) or ("reward",)
    n = int(env.action_size)
    action_space = Box(-1.0, 1.0, (n,), np.float32)

    # Compiled as a whole: training resets outside of its own program, where every operation of the physics, some
    # hundreds, would be compiled on its own.
    first = jax.jit(lambda key: quietly(env.reset, key))

    def reset(key: jax.Array) -> tuple[Any, Any]:
        state = first(key)
        return (state, jnp.int32(0)), state.obs

    def step(key: jax.Array, state: Any, action: Any) -> Step:
        robot, time = env.step(state[0], action), state[1] + 1
        psi = jnp.stack([robot.metrics[metric] for metric in metrics] or [robot.reward])
        if with_rest:
            psi = jnp.append(psi, robot.reward - psi.sum())
        return Step((robot, time), robot.obs, psi, robot.done, jnp.array(False) if limit is None else time >= limit)

    return problem_of(
        name,
        reset,
        step,
        observation_space=_unbounded(example.obs),
        action_space=action_space,
        network=network_for(network, action_space, targets + ("other",) * with_rest, _actuators(model, n)),
    )


def _check_wrappers(env: Any) -> None:
    """Raise TypeError if an environment counts steps, vectorises or resets by itself."""
    inner = env
    while inner is not None:
        if type(inner).__name__ in _TRAINING_WRAPPERS:
            raise TypeError(
                f"env: got an environment wrapped in {type(inner).__name__}, want it without this wrapper: the learner "
                "runs and resets many episodes. Pass env.unwrapped, and the number of steps as episode_length"
            )
        inner = vars(inner).get("env")


def _target_metrics(env: Any, metrics: list[str], terms: bool | None, add_up: bool | None) -> list[str]:
    """Return the metrics that become targets; empty if the reward is the only target."""
    if terms and not metrics:
        raise ValueError(
            f"terms: got True, but no metric of {shown(env)} begins with {PREFIX!r}; want False, or omit it"
        )
    if terms is None and metrics:
        terms = terms_add_up(env, metrics) if add_up is None else add_up
    return metrics if terms else []


def terms_add_up(env: Any, terms: list[str]) -> bool:
    """Return whether the terms add up to the reward, up to rounding, in a run with random actions."""

    def step(state: Any, key: jax.Array) -> Any:
        action = jax.random.uniform(key, (int(env.action_size),), minval=-1.0)
        state = quietly(env.step, state, action)
        return state, (state.reward, jnp.stack([state.metrics[term] for term in terms]))

    @jax.jit
    def run(key: jax.Array) -> Any:
        first = strongly_typed(quietly(env.reset, plain_key(key)))
        return jax.lax.scan(step, first, jax.random.split(key, CHECKED_STEPS))[1]

    reward, parts = map(np.asarray, run(jax.random.key(0)))
    ends = np.flatnonzero(~np.isfinite(reward) | ~np.isfinite(parts).all(axis=1))
    valid = slice(0, ends[0] if len(ends) else None)  # values after the end of an episode are undefined
    error = np.abs(parts.sum(axis=1) - reward)[valid]
    return bool(error.size) and bool((error <= _TOLERANCE * (1 + np.abs(parts).sum(axis=1)[valid])).all())


def _unbounded(observation: Any) -> Any:
    """Return the unbounded space of observations: a Box, or a Dict of Boxes."""
    if isinstance(observation, dict):
        return Dict({name: _unbounded(part) for name, part in observation.items()})
    return box(-np.inf, np.inf, observation.shape, observation.dtype)


def _actuators(model: Any, n: int) -> tuple[str, ...] | None:
    """Return the names of the actuators or of their joints; None unless all have different ones."""
    if model is None or model.nu != n:
        return None
    joints = [int(joint) for joint in model.actuator_trnid[:, 0]]
    moves_joint = np.asarray(model.actuator_trntype) == 0  # others move tendons or sites, which the number refers to
    names = tuple(
        model.actuator(i).name or (model.joint(joints[i]).name if moves_joint[i] and joints[i] >= 0 else "")
        for i in range(n)
    )
    return names if all(names) and len(set(names)) == n else None
