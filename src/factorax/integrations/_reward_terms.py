"""Brax and MuJoCo Playground: environments whose metrics hold the terms of the reward, which become targets."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box

from .._checks import Count, check_type, checked, shown
from ..problems.problem import Problem, Step
from ._jax_environments import as_element, box, distinct, network_for, plain_key, quietly, scalar_flag, strongly_typed

PREFIX = "reward"
"""What the names of metrics begin with that are terms of the reward."""
OTHER = "other"
"""The target that holds what the terms leave of the reward."""
CHECKED_STEPS = 32
"""Steps with random actions in which terms are added up and compared with the reward."""
_TOLERANCE = 1e-4
_OF_TRAINING = ("VmapWrapper", "EpisodeWrapper", "AutoResetWrapper", "EvalWrapper", "BraxAutoResetWrapper")
"""Wrappers that do what the learner does itself."""


def check_environment(env: Any, kind: type | tuple[type, ...], title: str) -> None:
    """Raise TypeError for what is no environment, or one that counts, maps or resets by itself."""
    check_type("env", env, kind, f"the name of an environment of {title}, or one")
    inner = env
    while inner is not None:
        if type(inner).__name__ in _OF_TRAINING:
            raise TypeError(
                f"env: got one with {type(inner).__name__} around it, want it without: the learner runs many episodes, "
                "and resets them; give the number of steps as episode_length, and the environment as env.unwrapped"
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
    """Return an environment with `reset(key)` and `step(state, action)`, both of which return a state with `obs`,
    `reward`, `done` and `metrics`, as a problem.

    - `terms`, `network`: as in `from_brax`.
    - `adds_up`: whether the terms are known to add up to the reward; None if that has to be tried out.
    - `model`: a model of MuJoCo that has names for the actions.
    """
    checked("terms", terms, bool | None)
    limit = checked("episode_length", episode_length, Count | None)
    example = quietly(jax.eval_shape, env.reset, plain_key(jax.random.key(0)))
    observation_space = _space_of(example.obs)
    n = int(env.action_size)
    found = sorted(metric for metric in example.metrics if metric.startswith(PREFIX))
    chosen = _chosen(env, found, terms, adds_up)
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
        inner = quietly(env.step, jax.tree.map(lambda leaf: leaf, inner), action)  # some write into its dictionaries
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


def _chosen(env: Any, found: list[str], terms: bool | None, adds_up: bool | None) -> list[str]:
    """Return the metrics that become targets; none if the reward is the only one."""
    if terms is False or (not found and terms is None):
        return []
    if not found:
        raise ValueError(
            f"terms: got True, and no metric of {shown(env)} begins with {PREFIX!r}; leave it out, for the reward alone"
        )
    if terms is None and adds_up is None:
        adds_up = terms_add_up(env, found)
    return found if terms or adds_up else []


def terms_add_up(env: Any, terms: list[str], steps: int = CHECKED_STEPS) -> bool:
    """Return whether the terms add up to the reward, up to rounding, in a run with random actions."""

    def step(state: Any, key: jax.Array) -> Any:
        action = jax.random.uniform(key, (int(env.action_size),), minval=-1.0)
        state = quietly(env.step, state, action)
        return state, (state.reward, jnp.stack([state.metrics[term] for term in terms]))

    def run(key: jax.Array) -> Any:
        return jax.lax.scan(step, strongly_typed(quietly(env.reset, plain_key(key))), jax.random.split(key, steps))[1]

    reward, parts = map(np.asarray, jax.jit(run)(jax.random.key(0)))
    ends = np.flatnonzero(~np.isfinite(reward) | ~np.isfinite(parts).all(axis=1))
    known = slice(0, ends[0] if len(ends) else None)  # nothing is promised after the end of an episode
    off = np.abs(parts.sum(axis=1) - reward)[known]
    return bool(off.size) and bool((off <= _TOLERANCE * (1 + np.abs(parts).sum(axis=1)[known])).all())


def _space_of(observed: Any) -> Any:
    """Return the space of observations, which have no bounds: a Box, or a Dict of them."""
    if isinstance(observed, dict):
        from gymnasium.spaces import Dict

        return Dict({name: _space_of(part) for name, part in observed.items()})
    return box(-np.inf, np.inf, observed.shape, observed.dtype)


def _title(metric: str) -> str:
    """Return the name of a target.

    >>> _title("reward_ctrl"), _title("reward/upright")
    ('ctrl', 'upright')
    """
    return metric.removeprefix(PREFIX).lstrip("_/") or metric


def _actuators(model: Any, n: int) -> tuple[str, ...] | None:
    """Return names of the actuators, or of the joints they move; None if there are none."""
    if model is None or model.nu != n:
        return None
    joints = [int(joint) for joint in model.actuator_trnid[:, 0]]
    moves_joint = np.asarray(model.actuator_trntype) == 0
    return distinct(
        model.actuator(i).name or (model.joint(joints[i]).name if moves_joint[i] and joints[i] >= 0 else "")
        for i in range(n)
    )
