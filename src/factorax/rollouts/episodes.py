"""Episodes in progress: the data to replay them, in memory and in files."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .transitions import RunningEpisodes, Transition


class Episode(NamedTuple):
    """An episode in progress."""

    seed: int
    """Seed of its reset."""
    actions: tuple[np.ndarray, ...]
    """Flat actions, ``(steps, c)`` for each rollout that contains a part of the episode."""
    obs: np.ndarray
    """Its last observation, ``(d,)``."""
    memory: np.ndarray | None = None
    """Memory of a recurrent policy, ``(h,)``."""

    @property
    def length(self) -> int:
        """Number of steps so far."""
        return sum(map(len, self.actions))


def continued(before: Sequence[Episode] | None, transitions: Transition, running: RunningEpisodes) -> list[Episode]:
    """Return the episodes in progress after one more rollout."""
    episodes = []
    for i, (seed, began) in enumerate(zip(running.seed, running.began, strict=True)):
        earlier = before[i].actions if began < 0 and before is not None else ()
        # Copied: a view would keep the arrays of the whole rollout alive.
        part = np.array(transitions.action[max(began, 0) :, i], np.float32)
        memory = None if running.memory is None else np.array(running.memory[i], np.float32)
        episodes.append(Episode(int(seed), (*earlier, part), np.array(running.obs[i], np.float32), memory))
    return episodes


def to_arrays(episodes: Sequence[Episode]) -> dict[str, np.ndarray]:
    """Return episodes as arrays by name, for a file."""
    # Parts stay separate, because a replay sums the targets of each part as the rollouts did, to the same bits.
    parts = [(i, len(part)) for i, episode in enumerate(episodes) for part in episode.actions]
    memories = [episode.memory for episode in episodes if episode.memory is not None]
    remembered = {"memory": np.stack(memories)} if memories else {}
    return remembered | {
        "seed": np.array([episode.seed for episode in episodes], np.int64),
        "obs": np.stack([episode.obs for episode in episodes]),
        "actions": np.concatenate([part for episode in episodes for part in episode.actions]),
        "parts": np.array(parts, np.int64).reshape(-1, 2),
    }


def from_arrays(
    arrays: dict[str, np.ndarray], n_envs: int, n_inputs: int, n_components: int, memory: int = 0
) -> list[Episode]:
    """Create episodes from the arrays of an untrusted file; raise ValueError if they do not fit."""
    try:
        seed, obs, actions, parts = (arrays[name] for name in ("seed", "obs", "actions", "parts"))
    except KeyError as error:
        raise ValueError(f"episodes: got no entry {error}, want all entries of to_arrays") from None
    want = {
        "seed": ((n_envs,), np.int64),
        "obs": ((n_envs, n_inputs), np.float32),
        "actions": ((*actions.shape[:1], n_components), np.float32),
        "parts": ((*parts.shape[:1], 2), np.int64),
    }
    if memory:
        want["memory"] = (n_envs, memory), np.float32
        arrays = {"memory": np.zeros(0)} | arrays
    for name, (shape, dtype) in want.items():
        got = arrays[name]
        if got.shape != shape or got.dtype != dtype:
            raise ValueError(
                f"episodes: {name} has shape {got.shape} and type {got.dtype}, want {shape} and {dtype.__name__}"
            )
    # Checked before they index anything: the file may come from somebody else.
    of, lengths = parts.T
    fits = (of >= 0) & (of < n_envs) & (lengths >= 0) & (lengths <= len(actions))
    if not fits.all() or lengths.sum() != len(actions) or (np.diff(of) < 0).any() or (seed < 0).any():
        raise ValueError("episodes: the lengths of their parts do not add up")
    ends = np.cumsum(lengths)
    actions_of: list[list[np.ndarray]] = [[] for _ in range(n_envs)]
    for i, length, end in zip(of, lengths, ends, strict=True):
        actions_of[i].append(np.asarray(actions[end - length : end], np.float32))
    remembered = arrays["memory"] if memory else [None] * n_envs
    return [
        Episode(int(s), tuple(rows), np.asarray(o, np.float32), r)
        for s, rows, o, r in zip(seed, actions_of, obs, remembered, strict=True)
    ]
