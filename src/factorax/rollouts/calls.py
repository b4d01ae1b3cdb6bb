"""A record of calls of vector environments, and its transitions."""

from typing import Any

import numpy as np

from .transitions import OPTIONAL, Transition
from .vector import Rows

Episodes = tuple[np.ndarray, np.ndarray]
"""Summed targets ``(B, m)`` and lengths ``(B,)`` of the episodes in progress."""


class Calls:
    """The results of at most C calls of B environments, ``[C, B, ...]``. Some calls only reset an environment."""

    def __init__(self, most: int, n_envs: int, n_inputs: int, n_components: int, n_targets: int):
        shape = self.shape = most, n_envs
        self.obs, self.next_obs = np.zeros((*shape, n_inputs), np.float32), np.zeros((*shape, n_inputs), np.float32)
        self.action, self.psi = np.zeros((*shape, n_components), np.float32), np.zeros((*shape, n_targets))
        self.terminated, self.truncated, self.real = (np.zeros(shape, bool) for _ in range(3))
        self.optional: dict[str, Any] = dict.fromkeys(OPTIONAL)
        self.count = 0

    def write(self, rows: slice, obs: np.ndarray, action: np.ndarray, got: Rows) -> None:
        """Record the result of a call of some environments, as copies, since environments may modify their arrays."""
        c = self.count
        self.obs[c, rows], self.action[c, rows], self.next_obs[c, rows] = obs, action, got.next_obs
        self.psi[c, rows], self.terminated[c, rows], self.truncated[c, rows] = got.psi, got.terminated, got.truncated
        self.real[c, rows] = True if got.resets is None else ~got.resets
        for name, (entries, there) in got.optional.items():
            if self.optional[name] is None:
                self.optional[name] = np.full((*self.shape, entries.shape[1]), OPTIONAL[name])
            self.optional[name][c, rows][there] = entries[there]

    def next(self) -> None:
        """Advance to the next call."""
        self.count += 1

    def first_not_finite(self) -> tuple[int, int, str] | None:
        """Return the first call and environment with a non-finite number, and a description of it."""
        psi, obs = self.psi[: self.count], self.next_obs[: self.count]
        bad = ~(np.isfinite(psi).all(axis=-1) & np.isfinite(obs).all(axis=-1))
        if not bad.any():
            return None
        c, i = map(int, np.argwhere(bad)[0])
        wrong = np.flatnonzero(~np.isfinite(psi[c, i]))
        what = f"target {wrong[0]} is {psi[c, i, wrong[0]]}" if len(wrong) else "the observation is not finite"
        return c, i, what

    def transitions(
        self, n_steps: int, episodes: Episodes
    ) -> tuple[Transition, np.ndarray | None, np.ndarray, list[tuple[int, np.ndarray]]]:
        """Return the first `n_steps` transitions of each environment, and what else is needed of the calls.

        The results are the transitions ``[T, B, ...]``; the call of each transition if it differs from the step; the
        step before which the episodes in progress began, −1 if earlier; and all episodes that ended. `episodes` are
        the episodes in progress before these calls, and are updated.
        """
        returns, lengths, finished, last = self._ended(episodes)
        names = ("obs", "action", "psi", "next_obs", "terminated", "truncated")
        fields: dict[str, Any] = {name: getattr(self, name) for name in names}
        fields |= self.optional | {"episode_psi": returns, "episode_length": lengths}
        calls = None
        if self.count != n_steps or not self.real[: self.count].all():
            # Lost environments have made too few transitions; the missing ones stay zeros.
            calls = np.argsort(~self.real, axis=0, kind="stable")[:n_steps]
            columns = np.arange(self.shape[1])
            fields = {name: None if array is None else array[calls, columns] for name, array in fields.items()}
            n_made = np.cumsum(self.real, axis=0)
            last = np.where(last >= 0, np.minimum(n_made[last, columns], n_steps), -1)
        else:
            fields = {name: None if array is None else array[:n_steps] for name, array in fields.items()}
            last = np.where(last >= 0, last + 1, -1)
        fields["psi"] = fields["psi"].astype(np.float32)
        return Transition(**fields), calls, last, finished

    def _ended(self, episodes: Episodes) -> tuple[np.ndarray, np.ndarray, list[tuple[int, np.ndarray]], np.ndarray]:
        """Return targets ``[C, B, m]`` and lengths ``[C, B]`` where an episode ended, and zeros elsewhere.

        Sums are in 64 bits, in the same order as in `HostEnvironments`. Also returns the last call in which an episode
        of each environment ended, or −1.
        """
        total, length = episodes
        returns, lengths = np.zeros(self.psi.shape), np.zeros(self.shape, np.int64)
        begun, last = np.zeros(self.shape[1], np.int64), np.full(self.shape[1], -1)
        finished = []
        for c, i in np.argwhere(self.terminated | self.truncated):
            returns[c, i] = total[i] + self.psi[begun[i] : c + 1, i].sum(axis=0)
            lengths[c, i] = length[i] + self.real[begun[i] : c + 1, i].sum()
            finished.append((int(i), returns[c, i].copy()))
            total[i], length[i], begun[i], last[i] = 0.0, 0, c + 1, c
        for i in range(self.shape[1]):
            total[i] += self.psi[begun[i] : self.count, i].sum(axis=0)
            length[i] += self.real[begun[i] : self.count, i].sum()
        return returns, lengths, finished, last
