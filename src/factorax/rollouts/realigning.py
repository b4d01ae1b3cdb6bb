"""Replay of the episodes of a vector environment, which differ in length and must end in the same step."""

from collections.abc import Sequence

import numpy as np

from ..problems.failures import EpisodeLost
from ..structure.labels import counted
from .episodes import Episode
from .vector import Vector


def replayed(vector: Vector, episodes: Sequence[Episode], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Bring the environments of a vector to the current step of these episodes.

    Returns the summed targets ``(n, m)`` and lengths ``(n,)`` of the episodes. The longest episode is replayed from
    its first step. The environments of shorter episodes are stepped along and reset with their seeds later, so that
    all episodes end in the same step. Raises `EpisodeLost` if an episode does not repeat, or if the vector draws its
    own seeds.
    """
    if not vector.seeded:
        raise EpisodeLost(
            f"{vector.name} resets its environments with its own seeds, so its episodes cannot be replayed; want "
            "gymnasium.vector.SyncVectorEnv or AsyncVectorEnv, or a vector environment with "
            "metadata['seed_per_env']"
        )
    actions = [np.concatenate([*episode.actions, np.zeros((0, len(vector.space)), np.float32)]) for episode in episodes]
    lengths, seeds = np.array([len(each) for each in actions]), [episode.seed for episode in episodes]
    longest = int(lengths.max())
    starts = longest - lengths
    waiting = np.stack([each[0] if len(each) else np.zeros(len(vector.space), np.float32) for each in actions])
    obs = vector.begin(seeds)
    psi, over = np.zeros((longest, n, vector.n_targets)), np.zeros(n, bool)
    for t in range(longest + 1):
        again = ((starts == t) & (t > 0)) | over
        if again.any():
            obs = np.where(again[:, None], vector.reset(again, seeds), obs)
        if t == longest:
            break
        chosen = np.where(
            (starts <= t)[:, None],
            [each[t - s] if t >= s else w for each, s, w in zip(actions, starts, waiting, strict=True)],
            waiting,
        )
        got = vector.step(chosen)
        psi[t], obs, over = got.psi, got.next_obs, got.terminated | got.truncated
        if (over & (starts <= t)).any():
            raise _other(int(np.flatnonzero(over & (starts <= t))[0]), episodes)
    for i, episode in enumerate(episodes):
        if not np.array_equal(np.float32(obs[i]), episode.obs):
            raise _other(i, episodes)
    totals = np.zeros((n, vector.n_targets))
    for i, episode in enumerate(episodes):
        begin = starts[i]
        for part in episode.actions:  # summed in the original order
            totals[i] += psi[begin : begin + len(part), i].sum(axis=0)
            begin += len(part)
    return totals, lengths


def _other(i: int, episodes: Sequence[Episode]) -> EpisodeLost:
    episode = episodes[i]
    return EpisodeLost(
        f"its environment {i}, replayed with seed {episode.seed} and the same {counted(episode.length, 'action')}, "
        "gave different observations, so the episodes cannot be continued; want an environment that draws all random "
        "numbers from the seed of its reset"
    )
