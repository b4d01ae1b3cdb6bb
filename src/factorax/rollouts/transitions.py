"""What rollouts give: transitions ``[T, B, ...]``, and those of some environments put side by side."""

from collections.abc import Sequence
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
