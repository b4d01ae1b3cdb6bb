"""Brax and MuJoCo Playground: environments with reward terms in their metrics, which become targets."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box, Dict

from .._checks import Count, check_type, checked
from .._text import shown
from ..problems.problem import Problem, Step
from ._jax_environments import as_element, box, distinct, network_for, plain_key, quietly, scalar_flag, strongly_typed

PREFIX = "reward"
"""Prefix of the metrics that are terms of the reward."""
OTHER = "other"
"""The target that holds the rest of the reward."""
CHECKED_STEPS = 32
"""Number of steps with random actions in which the sum of the terms is compared with the reward."""
_TOLERANCE = 1e-4
_OF_TRAINING = ("VmapWrapper", "EpisodeWrapper", "AutoResetWrapper", "EvalWrapper", "BraxAutoResetWrapper")
"""Wrappers whose work the learner does itself."""


def check_environment(env: Any, kind: type | tuple[type, ...], title: str) -> None:
    """Raise TypeError if this is no environment, or if it counts steps, vectorises or resets by itself."""
    check_type("env", env, kind, f"a {title} environment or its name")
    inner = env
    while inner is not None:
        if type(inner).__name__ in _OF_TRAINING:
            raise TypeError(
                f"env: got an environment wrapped in {type(inner).__name__}, want it without this wrapper: the learner "
                "runs and resets many episodes. Pass env.unwrapped, and the number of steps as episode_length"
            )
        inner = vars(inner).get("env")


def problem_of(
    env: Any,
    name: str,
    *,
    episode_length: Any,
    terms: bool | None,
    network: Any,
    adds_up: bool | None = None,
    model: Any = None,
) -> Problem:
    """Return an environment as a problem.

    Its `reset(key)` and `step(state, action)` return a state with `obs`, `reward`, `done` and `metrics`.

    - `terms`, `network`: as in `from_brax`.
    - `adds_up`: whether the terms are known to add up to the reward; None if that must be tested.
    - `model`: a MuJoCo model with names of the actuators.
    """
    checked("terms", terms, bool | None)
    limit = checked("episode_length", episode_length, Count | None)
    example = quietly(jax.eval_shape, env.reset, plain_key(jax.random.key(0)))
    observation_space = _space_of(example.obs)
    n = int(env.action_size)
    metrics = sorted(metric for metric in example.metrics if metric.startswith(PREFIX))
    chosen = _chosen(env, metrics, terms, adds_up)
    with_other = bool(chosen) and terms is True and adds_up is not True
    targets = (*map(_title, chosen), *((OTHER,) if with_other else ())) if chosen else ("reward",)
    action_space = Box(-1.0, 1.0, (n,), np.float32)

    # Compiled as a whole: training resets outside of its own program, where every operation of the physics, some
    # hundreds, would be compiled on its own.
    first = jax.jit(lambda key: quietly(env.reset, key))

    def reset(key: jax.Array) -> tuple[Any, Any]:
        state = first(plain_key(key))
        return strongly_typed((state, jnp.int32(0))), as_element(observation_space, state.obs)

    def step(key: jax.Array, state: Any, action: Any) -> Step:
        inner, time = state
        # a copy, because some environments write into its dictionaries
        inner = quietly(env.step, jax.tree.map(lambda leaf: leaf, inner), action)
        time, terminated = time + 1, scalar_flag(inner.done)
        psi = jnp.stack([inner.metrics[metric] for metric in chosen] or [inner.reward]).astype(jnp.float32)
        if with_other:
            psi = jnp.append(psi, inner.reward - psi.sum())
        return Step(
            state=strongly_typed((inner, time)),
            obs=as_element(observation_space, inner.obs),
            psi=psi,
            terminated=terminated,
            truncated=jnp.array(False) if limit is None else (time >= limit) & ~terminated,
        )

    return Problem(
        name=name,
        reset=reset,
        step=step,
        observation_space=observation_space,
        action_space=action_space,
        network=network_for(network, action_space, targets, _actuators(model, n)),
        weights=np.ones(len(targets)),
    )


def _chosen(env: Any, metrics: list[str], terms: bool | None, adds_up: bool | None) -> list[str]:
    """Return the metrics that become targets; empty if the reward is the only target."""
    if terms is False or (not metrics and terms is None):
        return []
    if not metrics:
        raise ValueError(
            f"terms: got True, but no metric of {shown(env)} begins with {PREFIX!r}; want False, or omit it"
        )
    if terms is None and adds_up is None:
        adds_up = terms_add_up(env, metrics)
    return metrics if terms or adds_up else []


def terms_add_up(env: Any, terms: list[str]) -> bool:
    """Return whether the terms add up to the reward, up to rounding, in a run with random actions."""

    def step(state: Any, key: jax.Array) -> Any:
        action = jax.random.uniform(key, (int(env.action_size),), minval=-1.0)
        state = quietly(env.step, state, action)
        return state, (state.reward, jnp.stack([state.metrics[term] for term in terms]))

    def run(key: jax.Array) -> Any:
        return jax.lax.scan(
            step, strongly_typed(quietly(env.reset, plain_key(key))), jax.random.split(key, CHECKED_STEPS)
        )[1]

    reward, parts = map(np.asarray, jax.jit(run)(jax.random.key(0)))
    ends = np.flatnonzero(~np.isfinite(reward) | ~np.isfinite(parts).all(axis=1))
    known = slice(0, ends[0] if len(ends) else None)  # values after the end of an episode are undefined
    off = np.abs(parts.sum(axis=1) - reward)[known]
    return bool(off.size) and bool((off <= _TOLERANCE * (1 + np.abs(parts).sum(axis=1)[known])).all())


def _space_of(observed: Any) -> Any:
    """Return the unbounded space of observations: a Box, or a Dict of Boxes."""
    if isinstance(observed, dict):
        return Dict({name: _space_of(part) for name, part in observed.items()})
    return box(-np.inf, np.inf, observed.shape, observed.dtype)


def _title(metric: str) -> str:
    """Return the name of a target.

    >>> _title("reward_ctrl"), _title("reward/upright")
    ('ctrl', 'upright')
    """
    return metric.removeprefix(PREFIX).lstrip("_/") or metric


def _actuators(model: Any, n: int) -> tuple[str, ...] | None:
    """Return the names of the actuators or of their joints; None if there are none."""
    if model is None or model.nu != n:
        return None
    joints = [int(joint) for joint in model.actuator_trnid[:, 0]]
    moves_joint = np.asarray(model.actuator_trntype) == 0
    return distinct(
        model.actuator(i).name or (model.joint(joints[i]).name if moves_joint[i] and joints[i] >= 0 else "")
        for i in range(n)
    )
