"""Test whether an environment is reproducible after a reset with the same seed, which replays require."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._text import warn
from ..problems.vectors import create
from ..spaces import sample_valid
from .step_checks import checked_reset, checked_step, name_of

STEPS = 8
"""Number of steps that are repeated."""


class SeedWarning(UserWarning):
    """Warns of an environment that behaves differently after a reset with the same seed."""


def observed(env: Any, actions: int, *, targets: bool = False) -> list[np.ndarray]:
    """Return the observations of the first steps after ``reset(seed=0)``, up to the end of the first episode, with the
    targets of each step if requested, of twice as many steps.

    Actions are random, drawn with the seed `actions`. For a vector, the observations of all environments are returned.
    """
    env.action_space.seed(actions)
    obs, info = checked_reset(env, seed=0)
    rows = [numbers_of(obs)]
    for _ in range(2 * STEPS if targets else STEPS):
        obs, reward, terminated, truncated, info = checked_step(env, sample_valid(env.action_space, obs, info))
        over = np.any(terminated) or np.any(truncated)
        if over and not targets:  # no action follows the last observation
            break
        rows.append(numbers_of((obs, info.get("vector_reward", reward)) if targets else obs))
        if over:
            break
    return rows


def first_episodes(make: Callable[[], Any]) -> tuple[str, list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Return the name of a new environment, and three results of `observed`: twice with the same actions, and once with
    others."""
    env = create(make)
    try:
        return name_of(env), observed(env, 0), observed(env, 0), observed(env, 1)
    finally:
        env.close()


def numbers_of(obs: Any) -> np.ndarray:
    """Return a copy of all numbers of an observation, whatever its structure."""
    if isinstance(obs, dict | tuple):
        parts = obs.values() if isinstance(obs, dict) else obs
        return np.concatenate([numbers_of(part).ravel() for part in parts])
    return np.array(obs)


def differ(first: list[np.ndarray], second: list[np.ndarray]) -> bool:
    """Return whether two episodes differ in the steps that both have."""
    return any(not _equal(a, b) for a, b in zip(first, second, strict=False))


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    # NumPy cannot look for NaN in all types; text is an example.
    return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def warn_if_seed_ignored(
    name: str, first: list[np.ndarray], again: list[np.ndarray], *, training: bool = False
) -> None:
    """Warn if two episodes of an environment with one seed and the same actions, from `observed`, are not equal.

    With `training`, a difference in the first observation is not reported here: `repeated` warns of it in the first
    rollout.
    """
    if not differ(first, again) and len(first) == len(again):
        return
    unlike = [i for i, (a, b) in enumerate(zip(first, again, strict=False)) if not _equal(a, b)]
    at_once = unlike[:1] == [0]
    if at_once and training:
        return
    where = "already in the first observation" if at_once else "after a few steps"
    what = f"two episodes with reset(seed=0) and the same actions differ, {where}"
    warn(_message(name, what), SeedWarning)


def _message(name: str, what: str) -> str:
    return (
        f"{name}: {what}: its reset ignores the seed, or some random numbers do not come from it. It can be trained "
        "on, but runs are not reproducible: a replaced worker and a resumed run start new episodes. Call "
        "super().reset(seed=seed) in reset, and draw only from self.np_random"
    )


def repeated(environments: Any) -> list[SeedWarning]:
    """Reset the first batch of the `Environments` again with its seed; return a warning if its observation changes.

    The batch is the same as without the second reset if the environment is reproducible: no other random numbers are
    drawn.
    """
    if 0 in environments.lost:
        return []
    before = environments.obs[: environments.together].copy()
    try:
        environments.begin_batch(0)
    except RuntimeError:  # raised by environments that refuse an early reset, as Monitor of Stable-Baselines3 may
        return []
    if 0 in environments.lost or np.array_equal(before, environments.obs[: environments.together], equal_nan=True):
        return []
    what = f"two resets with seed {environments.seeds[0]} give different observations"
    return [SeedWarning(_message(environments.batches[0].name, what))]
