"""Transitions of a rollout, ``[T, B, ...]``, and of parts of its environments, which are concatenated."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np


class Transition(NamedTuple):
    """One step of B environments as JAX or NumPy arrays; ``[T, B, ...]`` for a rollout."""

    obs: Any
    action: Any
    psi: Any
    next_obs: Any
    terminated: Any
    truncated: Any
    factor_mask: Any
    """Mask of the factors that acted, ``(B, n)``, or None."""
    target_terminated: Any
    """Mask of the targets that have ended, ``(B, m)``, or None."""
    episode_psi: Any
    """The targets of an episode that ended in this step, ``(B, m)``; otherwise zero."""
    episode_length: Any
    log_prob: Any = None
    """Log-probability of each component under the acting policy, ``(B, c)``, if it may differ from the learner's."""
    memory: Any = None
    """Memory of a recurrent policy before it acted, ``(B, h)``."""


OPTIONAL = {"factor_mask": True, "target_terminated": False}
"""Optional entries of `info` with their defaults: all factors acted, and no target ended by itself."""


class RunningEpisodes(NamedTuple):
    """The episodes of B environments after a rollout, with the data to replay them."""

    seed: np.ndarray
    """Seed of the reset, ``(B,)``."""
    began: np.ndarray
    """The step of the rollout before which they were reset, ``(B,)``; −1 if it was in an earlier rollout."""
    obs: np.ndarray
    """Current observation, ``(B, d)``."""
    memory: np.ndarray | None = None
    """Memory of a recurrent policy, ``(B, h)``."""


class Fragment(NamedTuple):
    """A rollout of some of the environments, and their episodes after it."""

    transitions: Transition
    running: RunningEpisodes
    messages: tuple[str | Warning, ...]
    """Warnings to be shown to the user; texts are about what was lost and repeated."""
    late: tuple[tuple[int, np.ndarray], ...] = ()
    """Environments and targets of the episodes that ended in extra transitions, which vectors may make."""


class Slim(NamedTuple):
    """Transitions without redundant arrays, for transfer between machines.

    An observation equals the `next_obs` of the previous step unless an episode ended there, which is rare."""

    transitions: Transition
    """Transitions with None for arrays that follow from the rest."""
    first: np.ndarray
    """Observations before the first step, ``(B, d)``."""
    begun: np.ndarray
    """Observations before the first step of each later episode, ``(e, d)``."""
    episode_psi: np.ndarray
    """Targets of ended episodes, ``(E, m)``."""
    episode_length: np.ndarray


def before(first: np.ndarray, after: np.ndarray, begun: Iterable[tuple[int, int, np.ndarray]]) -> np.ndarray:
    """Return the observations before each step, ``[T, B, d]``, from those after it and the first ones of new episodes.

    `begun` lists for each new episode the previous step, the environment and the first observation.
    """
    obs = np.concatenate([first[None], after[:-1]])
    for t, i, first_obs in begun:
        obs[t + 1 : t + 2, i] = first_obs  # after the last step the slice is empty
    return obs


def slim(transitions: Transition) -> Slim:
    """Return the part of transitions that must be sent."""
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
    """Return the transitions from which `slim` was computed, bit for bit."""
    rest = sent.transitions
    over = rest.terminated | rest.truncated
    total = np.zeros(rest.psi.shape, sent.episode_psi.dtype)
    length = np.zeros(over.shape, sent.episode_length.dtype)
    total[over], length[over] = sent.episode_psi, sent.episode_length
    obs = before(sent.first, rest.next_obs, zip(*np.nonzero(over[:-1]), sent.begun, strict=True))
    return rest._replace(obs=obs, episode_psi=total, episode_length=length)


def side_by_side(parts: Sequence[Transition]) -> Transition:
    """Concatenate rollouts of different environments, ``[T, B₁ + B₂ + …, ...]``."""
    return Transition(*(_join(name, [getattr(part, name) for part in parts], parts) for name in Transition._fields))


def _join(name: str, columns: list[Any], parts: Sequence[Transition]) -> Any:
    example = next((column for column in columns if column is not None), None)
    if example is None:
        return None
    ends = np.cumsum([part.terminated.shape[1] for part in parts]).tolist()
    # Not concatenated: masks are missing where no environment of a part has returned one.
    joined = np.empty((len(example), ends[-1], *example.shape[2:]), example.dtype)
    for first, end, column in zip([0, *ends], ends, columns, strict=False):
        joined[:, first:end] = OPTIONAL.get(name, False) if column is None else column
    return joined


def sum_episodes(
    psi: np.ndarray, real: np.ndarray, ends: Iterable[Any], running: tuple[np.ndarray, np.ndarray], count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return targets ``[T, B, m]`` and lengths ``[T, B]`` where an episode ended, and zeros elsewhere; 64-bit sums.

    - `psi`, `real`: the targets, and which entries are steps of an episode, of which there are `count` in time.
    - `ends`: time and environment of each end of an episode, in order.
    - `running`: summed targets ``(B, m)`` and lengths ``(B,)`` of the episodes in progress, which are updated.
    """
    total, length = running
    returns, lengths = np.zeros(psi.shape), np.zeros(real.shape, np.int64)
    steps, begun = np.cumsum(real, axis=0), np.zeros(psi.shape[1], np.int64)
    for t, i in ends:
        returns[t, i] = total[i] + psi[begun[i] : t + 1, i].sum(axis=0)
        lengths[t, i] = length[i] + steps[t, i]
        total[i], length[i], begun[i] = 0.0, -steps[t, i], t + 1
    for i in range(psi.shape[1]):
        # One sum per rollout and then their sum: a replay adds up in the same order, to the same bits.
        total[i] += psi[begun[i] : count, i].sum(axis=0)
    length += steps[-1]
    return returns, lengths
