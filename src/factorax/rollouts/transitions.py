"""What a rollout gives: transitions ``[T, B, ...]``, also of some environments only, to be put side by side."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np


class Transition(NamedTuple):
    """What one step of B environments gave, as arrays of JAX or NumPy; of a rollout ``[T, B, ...]``."""

    obs: Any
    action: Any
    psi: Any
    next_obs: Any
    terminated: Any
    truncated: Any
    factor_mask: Any
    """``(B, n)`` or None."""
    target_terminated: Any
    """``(B, m)`` or None."""
    episode_psi: Any
    """The targets of an episode that ended here, ``(B, m)``; else zero."""
    episode_length: Any
    log_prob: Any = None
    """Log-probability of every component under the policy that acted, ``(B, c)``, if that may not be the learner's."""
    memory: Any = None
    """What a recurrent policy remembered before it acted, ``(B, h)``."""


OPTIONAL = {"factor_mask": True, "target_terminated": False}
"""What `info` may leave out, and what it then means: all factors acted, no target ended by itself."""


class RunningEpisodes(NamedTuple):
    """The episodes that B environments are in after a rollout: what it takes to replay them up to here."""

    seed: np.ndarray
    """Seed of their reset, ``(B,)``."""
    began: np.ndarray
    """The step of the rollout before which they were reset, ``(B,)``; −1 if that was in an earlier one."""
    obs: np.ndarray
    """Current observation, ``(B, d)``."""
    memory: np.ndarray | None = None
    """What a recurrent policy remembers of them, ``(B, h)``."""


class Fragment(NamedTuple):
    """A rollout of some of the environments, and the episodes they are in after it."""

    transitions: Transition
    running: RunningEpisodes
    messages: tuple[str, ...]
    """What was lost and repeated, to be shown to the user."""


class Slim(NamedTuple):
    """Transitions without redundant arrays, to be sent between machines: an observation is the `next_obs` of the step
    before, unless an episode ended there, and most steps end none."""

    transitions: Transition
    """With None for what follows from the rest."""
    first: np.ndarray
    """Observations before the first step, ``(B, d)``."""
    begun: np.ndarray
    """And before the first of every later episode, ``(e, d)``."""
    episode_psi: np.ndarray
    """Where an episode ended, ``(E, m)``."""
    episode_length: np.ndarray


def before(first: np.ndarray, after: np.ndarray, begun: Iterable[tuple[int, int, np.ndarray]]) -> np.ndarray:
    """Return observations before every step, ``[T, B, d]``, from those after it and the first ones of new episodes: the
    step before, the environment, the observation."""
    obs = np.concatenate([first[None], after[:-1]])
    for t, i, first_obs in begun:
        obs[t + 1 : t + 2, i] = first_obs  # after the last step the slice is empty
    return obs


def slim(transitions: Transition) -> Slim:
    """Return the part of transitions that has to be sent."""
    over = transitions.terminated | transitions.truncated
    rest = transitions._replace(obs=None, episode_psi=None, episode_length=None)
    return Slim(
        transitions=rest,
        first=transitions.obs[0],
        begun=transitions.obs[1:][over[:-1]],
        episode_psi=transitions.episode_psi[over],
        episode_length=transitions.episode_length[over],
    )


def whole(sent: Slim) -> Transition:
    """Return what `slim` was given, bit for bit."""
    rest = sent.transitions
    over = rest.terminated | rest.truncated
    total = np.zeros(rest.psi.shape, sent.episode_psi.dtype)
    length = np.zeros(over.shape, sent.episode_length.dtype)
    total[over], length[over] = sent.episode_psi, sent.episode_length
    obs = before(sent.first, rest.next_obs, zip(*np.nonzero(over[:-1]), sent.begun, strict=True))
    return rest._replace(obs=obs, episode_psi=total, episode_length=length)


def side_by_side(parts: Sequence[Transition]) -> Transition:
    """Return one rollout ``[T, B₁ + B₂ + …, ...]`` of all environments, in new arrays."""
    return Transition(
        *(
            _join(name, [getattr(part, name) for part in parts], [part.terminated.shape for part in parts])
            for name in Transition._fields
        )
    )


def _join(name: str, arrays: list[Any], shapes: list[tuple[int, ...]]) -> Any:
    example = next((array for array in arrays if array is not None), None)
    if example is None:
        return None
    missing = OPTIONAL.get(name, False)
    return np.concatenate(
        [
            np.full((*shape, *example.shape[2:]), missing) if array is None else array
            for array, shape in zip(arrays, shapes, strict=True)
        ],
        axis=1,
    )
