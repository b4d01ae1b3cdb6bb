"""An episode with one seed, replayed with other actions of some factors."""

from typing import Any

import numpy as np

from ..structure.labels import some
from .group_testing import any_of
from .simulator import Simulator
from .streams import held_steps


class ShiftedError(Exception):
    """Raised if random streams differ between a run with these `factors` changed and the run without changes."""

    def __init__(self, factors: np.ndarray, step: int):
        super().__init__(f"random streams differ after step {step}")
        self.factors, self.step = factors, step


def names_of(labels: tuple[str, ...], chosen: np.ndarray) -> list[str]:
    """Return the labels selected by booleans."""
    return [labels[i] for i in np.flatnonzero(chosen)]


class Reruns:
    """An episode with one seed, and the tests made on it."""

    def __init__(self, simulator: Simulator, name: str, seed: int, rng: np.random.Generator, not_finite: list[str]):
        self.simulator, self.seed, self.not_finite = simulator, seed, not_finite
        alike = seed % 2 == 0  # in every second episode
        acted = simulator.sequence(rng, alike=alike) if simulator.policy is None else simulator.acted(seed)
        self.forced, self.at = simulator.unlike(acted, rng), int(rng.integers(simulator.horizon))
        self.acted, self.base = acted, None if name == "closed-loop" else acted
        self.once = name == "one-step"
        n, m = simulator.network.shape
        self.groups, self.outcomes = np.zeros((0, n), bool), []
        self.moved, self.change = np.zeros((0, m), bool), np.zeros((0, m))
        self.before: np.ndarray | None = None
        self._notes: np.ndarray | None = None

    def _check_streams(self, groups: np.ndarray) -> None:
        """Raise if a run has drawn other random numbers than the run without changes."""
        notes = self.simulator.notes
        if notes is None:
            return
        first = self._notes = notes[0] if self._notes is None else self._notes
        held = held_steps(first, notes[len(notes) - len(groups) :])
        if (held < self.simulator.horizon).any():
            raise ShiftedError(groups[held.argmin()], int(held.min()))

    def _run(self, groups: np.ndarray) -> np.ndarray:
        """Return the targets of each group, ``(B, T, m)``; the first call also sets those `before` any change."""
        if self.once:
            targets = self.simulator.play_once(self.seed, self.acted, self.forced, groups, self.at)
            self._check_streams(groups)
            self.before, targets = targets[0], targets[1:]
            return targets
        first = np.zeros((int(self.before is None), groups.shape[1]), bool)
        targets = self.simulator.play(self.seed, self.base, self.forced, np.vstack([first, groups]))
        self._check_streams(groups)
        if self.before is None:
            self.before, targets = targets[0], targets[1:]
        return targets

    def test(self, groups: np.ndarray) -> np.ndarray:
        """Return which targets changed, ``(B, m)``."""
        targets = self._run(groups)
        compared = [self._compare(self.before, after) for after in targets]
        moved = np.array([differs for differs, _ in compared])
        self.groups, self.moved = np.vstack([self.groups, groups]), np.vstack([self.moved, moved])
        self.change = np.vstack([self.change, *(change for _, change in compared)])
        self.outcomes += list(targets)
        return moved

    @property
    def ruled_out(self) -> np.ndarray:
        """Return pairs ``(n, m)`` of a factor that was changed and a target that did not change."""
        return any_of(self.groups.T, ~self.moved)

    def _compare(self, first: Any, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        finite = np.isfinite(first).all(axis=1) & np.isfinite(after).all(axis=1)
        if not finite.all():
            t = int(finite.argmin())
            bad = ~np.isfinite(after[t]) | ~np.isfinite(first[t])
            self.not_finite.append(f"step {t}, target {some(names_of(self.simulator.network.targets, bad))}")
            first, after = first[:t], after[:t]
        return (after != first).any(axis=0), np.abs((after - first).sum(axis=0))

    def confirm(self, suggested: np.ndarray) -> np.ndarray:
        """Return the pairs ``(n, m)`` whose target differs between a test and the same test without the factor."""
        confirmed = np.zeros_like(suggested)
        tests = len(self.groups)
        for i in np.flatnonzero(suggested.any(axis=1)):
            remaining = suggested[i].copy()
            with_i = [r for r in range(tests) if self.groups[r, i] and (self.moved[r] & remaining).any()]
            while remaining.any() and with_i:
                r = max(with_i, key=lambda r: int((self.moved[r] & remaining).sum()))
                with_i.remove(r)
                without = self.groups[r].copy()
                without[i] = False
                if without.any():
                    self.test(without[None])
                other = self.outcomes[-1] if without.any() else self.before
                differs = self._compare(other, self.outcomes[r])[0]
                confirmed[i] |= remaining & differs
                remaining &= ~self.moved[r]
        return confirmed
