"""An episode with one seed, replayed with other actions of some factors."""

import numpy as np

from .._text import some
from .group_testing import any_of, shown
from .simulator import Simulator
from .streams import held_steps

MAX_PAIRED_RUNS = 64
"""Runs of an episode up to which every two are compared: where there are more, most change one factor each."""


class ShiftedError(Exception):
    """Raised if random streams differ between a run with these `factors` changed and the run without changes."""

    def __init__(self, factors: np.ndarray, step: int):
        super().__init__(f"random streams differ after step {step}")
        self.factors, self.step = factors, step


def names_of(labels: tuple[str, ...], chosen: np.ndarray) -> list[str]:
    """Return the labels selected by booleans."""
    return [labels[i] for i in np.flatnonzero(chosen)]


class Reruns:
    """An episode with one seed, its runs, and the tests that they are: every two runs test what they differ in."""

    def __init__(self, simulator: Simulator, name: str, seed: int, rng: np.random.Generator, not_finite: list[str]):
        self.simulator, self.seed, self.not_finite = simulator, seed, not_finite
        # Influence over long distances may need many actors to do the same for a while.
        alike = seed % 2 == 0  # in every second episode
        actions = simulator.sequence(rng, alike=alike) if simulator.policy is None else simulator.acted(seed)
        self.forced, self.at = simulator.unlike(actions, rng), int(rng.integers(simulator.horizon))
        self.acted, self.base = actions, None if name == "closed-loop" else actions
        self.once = name == "one-step"
        # Where others react, what both runs have in common may hold fixed what carries the influence.
        self.all_pairs = name != "closed-loop"
        n, m = simulator.network.shape
        self.runs = np.zeros((0, n), bool)
        """The factors that were changed in each run, ``(R, n)``; none in the first."""
        self.outcomes: list[np.ndarray] = []
        """Targets of every run, ``(T, m)`` each."""
        self.pairs = np.zeros((0, 2), int)
        """The two runs of every test."""
        self.groups, self.moved = np.zeros((0, n), bool), np.zeros((0, m), bool)
        self.change = np.zeros((0, m))
        """|Change of the target's sum over the episode| in every test."""
        self.peak = np.zeros((0, m))
        """Largest |change of the target| in a step of every test."""
        self._finite: list[bool] = []
        self._notes: np.ndarray | None = None

    def _check_streams(self, groups: np.ndarray) -> None:
        """Raise if a run has drawn other random numbers than the run without changes."""
        notes = self.simulator.notes
        if notes is None:
            return
        first = self._notes = notes[0] if self._notes is None else self._notes
        steps_held = held_steps(first, notes[len(notes) - len(groups) :])
        if (steps_held < self.simulator.horizon).any():
            raise ShiftedError(groups[steps_held.argmin()], int(steps_held.min()))

    def _run(self, groups: np.ndarray) -> np.ndarray:
        """Return the targets of every group, ``(B, T, m)``, after those of no group if there was no run before."""
        # The unchanged run comes first, and with other runs in one call: simulators play several at a time.
        first = np.zeros((int(not len(self.runs)), groups.shape[1]), bool)
        if self.once:
            targets = self.simulator.play_once(self.seed, self.acted, self.forced, groups, self.at)
            targets = targets[1 - len(first) :]
        else:
            targets = self.simulator.play(self.seed, self.base, self.forced, np.vstack([first, groups]))
        self._check_streams(groups)
        self.runs = np.vstack([self.runs, first, groups])
        return targets

    def test(self, groups: np.ndarray, like: int = 0) -> np.ndarray:
        """Run the episode with each of these groups changed; return which targets moved, ``(B, m)``.

        Each is compared with all earlier runs, or, if these are many, with the first and the one that it is `like`.
        """
        known = len(self.runs)
        self.outcomes += list(self._run(groups))
        self._finite += [bool(np.isfinite(outcome).all()) for outcome in self.outcomes[known:]]
        new = range(max(known, 1), len(self.runs))
        few = self.all_pairs and len(self.runs) <= MAX_PAIRED_RUNS
        pairs = [(a, b) for b in new for a in (range(b) if few else sorted({0, like}))]
        change, peak = map(np.array, zip(*(self._compare(a, b) for a, b in pairs), strict=True))
        moved = peak > self.simulator.least_change
        self.pairs = np.vstack([self.pairs, pairs])
        self.groups = np.vstack([self.groups, [self.runs[a] ^ self.runs[b] for a, b in pairs]])
        self.moved = np.vstack([self.moved, moved])
        self.change, self.peak = np.vstack([self.change, change]), np.vstack([self.peak, peak])
        return moved[np.array(pairs)[:, 0] == 0]

    def flip(self, run: int, group: np.ndarray) -> None:
        """Run the episode as in this run, but for what the group does."""
        self.test((self.runs[run] ^ group)[None], like=run)

    @property
    def ruled_out(self) -> np.ndarray:
        """Return pairs ``(n, m)`` of a factor that was changed and a target that did not change."""
        return any_of(self.groups.T, ~self.moved)

    @property
    def slight(self) -> np.ndarray:
        """Return tests and targets ``(tests, m)`` in which the target changed by less than the tolerance."""
        return (self.peak > 0) & ~self.moved

    def _compare(self, a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the changes of all targets between two runs: of their sums, and the largest in a step."""
        first, after = self.outcomes[a], self.outcomes[b]
        # Steps from the first non-finite target on are compared with nothing; the result notes it.
        if not (self._finite[a] and self._finite[b]):
            finite = np.isfinite(first).all(axis=1) & np.isfinite(after).all(axis=1)
            t = int(finite.argmin())
            bad = ~np.isfinite(after[t]) | ~np.isfinite(first[t])
            self.not_finite.append(f"step {t}, target {some(names_of(self.simulator.network.targets, bad))}")
            first, after = first[:t], after[:t]
        return np.abs((after - first).sum(axis=0)), np.abs(after - first).max(axis=0, initial=0.0)

    def confirm(self, suggested: np.ndarray) -> np.ndarray:
        """Return the pairs ``(n, m)`` whose target differs between a run and the same run but for the factor."""
        confirmed = shown(self.groups, self.moved) & suggested
        for i in np.flatnonzero(suggested.any(axis=1)):
            left = suggested[i] & ~confirmed[i]
            tests = [r for r in np.flatnonzero(self.groups[:, i]) if (self.moved[r] & left).any()]
            alone = np.arange(len(suggested)) == i
            while left.any() and tests:
                r = max(tests, key=lambda r: int((self.moved[r] & left).sum()))
                tests.remove(r)
                targets, changed = left & self.moved[r], self.runs[self.pairs[r, 1]] ^ alone
                if not (self.runs == changed).all(axis=1).any():
                    self.test(changed[None], like=self.pairs[r, 1])
                confirmed[i] |= shown(self.groups, self.moved)[i] & suggested[i]
                left &= ~targets
        return confirmed
