"""What rollouts give: transitions ``[T, B, ...]``, and those of some environments put side by side."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np


class Transition(NamedTuple):
    """What one step of B environments gave, as arrays of JAX or NumPy."""

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
    """The targets of an episode that ended here, ``(B, m)``; else nought."""
    episode_length: Any
    log_prob: Any = None
    """Of every component's action under the policy that acted, ``(B, c)``, where that may not be the learner's."""


OPTIONAL = {"factor_mask": True, "target_terminated": False}
"""What an `info` may leave out, and what it then means: all factors acted, no target ended by itself."""


class Running(NamedTuple):
    """The episodes that B environments are in after a rollout: what it takes to play them again up to here."""

    seed: np.ndarray
    """Of their reset, ``(B,)``."""
    began: np.ndarray
    """The step of the rollout before which they were reset, ``(B,)``; −1 if that was in an earlier one."""
    obs: np.ndarray
    """What they give now, ``(B, d)``."""


class Fragment(NamedTuple):
    """A rollout of some environments, and what became of them."""

    seen: Transition
    running: Running
    messages: tuple[str, ...]
    """Of what was lost and begun anew: for the user's eyes."""


class Slim(NamedTuple):
    """Transitions without what they say twice, to be sent from machine to machine: an observation is the last one after
    it, unless an episode ended there, and most steps end none."""

    seen: Transition
    """With None for what follows from the rest."""
    first: np.ndarray
    """Observations before the first step, ``(B, d)``."""
    begun: np.ndarray
    """And before the first of every later episode, ``(e, d)``."""
    episode_psi: np.ndarray
    """Where an episode ended, ``(E, m)``."""
    episode_length: np.ndarray


def before(first: np.ndarray, after: np.ndarray, begun: Iterable[tuple[int, int, np.ndarray]]) -> np.ndarray:
    """Observations before every step, ``[T, B, d]``, from those after it and those that episodes began with: the step
    before, the environment, what was seen."""
    obs = np.concatenate([first[None], after[:-1]])
    for t, i, seen in begun:
        obs[t + 1 : t + 2, i] = seen  # after the last step: nowhere
    return obs


def slim(seen: Transition) -> Slim:
    """What has to be sent."""
    over = seen.terminated | seen.truncated
    rest = seen._replace(obs=None, episode_psi=None, episode_length=None)
    return Slim(rest, seen.obs[0], seen.obs[1:][over[:-1]], seen.episode_psi[over], seen.episode_length[over])


def whole(sent: Slim) -> Transition:
    """What `slim` was given, bit for bit."""
    seen = sent.seen
    over = seen.terminated | seen.truncated
    total = np.zeros(seen.psi.shape, sent.episode_psi.dtype)
    length = np.zeros(over.shape, sent.episode_length.dtype)
    total[over], length[over] = sent.episode_psi, sent.episode_length
    obs = before(sent.first, seen.next_obs, zip(*np.nonzero(over[:-1]), sent.begun, strict=True))
    return seen._replace(obs=obs, episode_psi=total, episode_length=length)


def side_by_side(parts: Sequence[Transition]) -> Transition:
    """One rollout ``[T, B₁ + B₂ + …, ...]`` of all environments, in arrays of its own."""
    return Transition(
        *(
            _join(name, [getattr(part, name) for part in parts], [part.terminated.shape for part in parts])
            for name in Transition._fields
        )
    )


def _join(name: str, arrays: list[Any], shapes: list[tuple[int, ...]]) -> Any:
    given = next((array for array in arrays if array is not None), None)
    if given is None:
        return None
    missing = OPTIONAL.get(name, False)
    return np.concatenate(
        [
            np.full((*shape, *given.shape[2:]), missing) if array is None else array
            for array, shape in zip(arrays, shapes, strict=True)
        ],
        axis=1,
    )
