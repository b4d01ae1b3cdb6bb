"""Test whether an environment is reproducible after a reset with the same seed, which replays require."""

from typing import Any

import numpy as np

from .._text import warn
from ..problems.failures import EpisodeLost
from ..spaces import sample_valid
from .returned import checked_reset, checked_step, name_of

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
    return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def warn_if_seed_ignored(env: Any, first: list[np.ndarray], again: list[np.ndarray], *, training: bool = False) -> None:
    """Warn if two episodes with one seed and the same actions, from `observed`, are not equal.

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
    warn(_message(name_of(env), what), SeedWarning)


def _message(name: str, what: str) -> str:
    return (
        f"{name}: {what}: its reset ignores the seed, or some random numbers do not come from it. It can be trained "
        "on, but runs are not reproducible: a replaced worker and a resumed run start new episodes. Call "
        "super().reset(seed=seed) in reset, and draw only from self.np_random"
    )


def repeated(hosts: Any, lost: dict[int, EpisodeLost]) -> list[SeedWarning]:
    """Reset the first of the `Hosts` again with its seed; return a warning if its observation differs from that before.

    The batch is the same as without the second reset if the environment is reproducible: no other random numbers are
    drawn.
    """
    if 0 in lost:
        return []
    before = hosts.obs[: hosts.together].copy()
    try:
        name = hosts.begin_again(lost)
    except RuntimeError:  # raised by environments that refuse an early reset, as Monitor of Stable-Baselines3 may
        return []
    if 0 in lost or np.array_equal(before, hosts.obs[: hosts.together], equal_nan=True):
        return []
    return [SeedWarning(_message(name, f"two resets with seed {hosts.seeds[0]} give different observations"))]
