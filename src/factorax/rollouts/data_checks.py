"""Warnings about the data of a problem: targets, ends of episodes, and first observations that are probably not
intended."""

import numpy as np

from .._text import counted, some, warn
from ..spec import Spec
from .seeding import SeedWarning
from .transitions import Transition

MIN_STEPS = 1_000
"""Number of steps of training after which its data are judged."""
MIN_STARTS = 40
"""Number of episodes with seeds of 31 bits after which their first observations are judged."""
MAX_NONZERO = 0.01
"""A target with a smaller share of nonzero entries is reported."""
MAX_SCALE_RATIO = 100.0
"""Targets whose standard deviations, times λ, differ by a larger factor are reported."""


class DataWarning(UserWarning):
    """Warns of targets or ends of episodes that are valid but probably not intended."""


class DataCheck:
    """Judges the first steps of a problem, once, with a warning for each thing that is probably not intended."""

    def __init__(self, spec: Spec, steps: int = MIN_STEPS):
        self._spec, self._steps, self._count = spec, steps, 0
        self._psi: list[np.ndarray] = []
        self._truncated = self._both = self._terminated = 0
        self._small: np.ndarray | None = None
        self._large: list[np.ndarray] = []

    def transitions(self, rollout: Transition) -> None:
        """Add the transitions of a rollout; the first one begins with the episodes of small seeds."""
        over = rollout.terminated | rollout.truncated
        self.steps(rollout.psi.reshape(-1, rollout.psi.shape[-1]), rollout.terminated, rollout.truncated)
        if len(self._large) < MIN_STARTS:
            if self._small is None:
                self._small = np.array(rollout.obs[0])
            self._large += list(rollout.obs[1:][over[:-1]][: MIN_STARTS - len(self._large)])
            if len(self._large) == MIN_STARTS and same_start(self._small, self._large):
                warn_of_same_start(MIN_STARTS)

    def steps(self, psi: np.ndarray, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """Add targets ``(k, m)`` and flags of k steps in any shape; warn once enough steps have been added."""
        if self._count >= self._steps:
            return
        self._psi.append(psi[: self._steps - self._count].copy())
        self._count += len(psi)
        self._terminated += int(terminated.sum())
        self._truncated += int(truncated.sum())
        self._both += int((terminated & truncated).sum())
        if self._count >= self._steps:
            self._judge(np.concatenate(self._psi))
            self._psi = []

    def _judge(self, psi: np.ndarray) -> None:
        within = f"of {len(psi):,} steps"
        # Once, an episode may have failed in its last step.
        if self._both >= 2 and self._both == self._truncated:
            warn(
                f"terminated: was true in all {self._both} steps in which truncated was true, so that the value after "
                "a time limit counts as 0; want terminated=False where only the time limit ends an episode",
                DataWarning,
            )
        zero = (psi != 0).mean(axis=0) <= MAX_NONZERO
        # A constant reward or cost of each step is meaningful if episodes terminate.
        constant = ~zero & (psi == psi[:1]).all(axis=0) & (self._terminated == 0) & (psi.shape[1] > 1)
        for found, what in ((zero, f"0 in at least {1 - MAX_NONZERO:.0%}"), (constant, "constant in all")):
            if names := self._influenced(found):
                warn(
                    f"targets: {some(names)} {'is' if len(names) == 1 else 'are'} {what} {within}, so no action is "
                    "credited for a difference; check what `reward` reads, reward steps towards the goal, or leave "
                    "them out",
                    DataWarning,
                )
        # In double precision: targets may be large and vary little.
        spread = np.abs(self._spec.weights) * psi.std(axis=0, dtype=np.float64)
        # These have been reported above.
        spread[zero | constant] = 0.0
        if (spread > 0).any() and spread.max() > MAX_SCALE_RATIO * (least := spread[spread > 0].min()):
            names = self._spec.network.static.targets
            large, small = names[int(spread.argmax())], names[int(np.flatnonzero(spread == least)[0])]
            warn(
                f"targets: {large!r} varies {spread.max() / least:,.0f} times as much as {small!r} (standard "
                f"deviations times weights: {spread.max():.3g} and {least:.3g}), so the latter is hardly learnt; scale "
                "the targets in the environment, or pass weights=…, if both matter",
                DataWarning,
            )

    def _influenced(self, found: np.ndarray) -> list[str]:
        """Return the names of those targets that some factor influences."""
        static, index = self._spec.network.static, np.flatnonzero(found)
        if not len(index):
            return []
        influenced = np.diff(static.matrix[:, index].tocsc().indptr) > 0
        return [static.targets[j] for j in index[influenced]]


def same_start(small: np.ndarray, large: list[np.ndarray]) -> bool:
    """Return whether all episodes with large seeds began with the same observation, but some with small seeds did not.

    If those began with it as well, the start does not depend on the seed, which may be intended.
    """
    return all(np.array_equal(row, large[0]) for row in large) and not all(np.array_equal(s, large[0]) for s in small)


def warn_of_same_start(count: int) -> None:
    """Warn that episodes with different seeds begin with the same observation."""
    warn(
        f"reset: {counted(count, 'episode')} with different seeds began with the same observation, unlike those with "
        "small seeds. If the seed selects a scenario, such as a day, map all 31-bit seeds to scenarios: "
        "seed % n_scenarios",
        SeedWarning,
    )
