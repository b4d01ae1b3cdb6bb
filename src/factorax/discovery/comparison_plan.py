"""Plans of an episode's runs, of which every two are a test: which factors to change in which run.

Two runs of an episode that differ in a group of factors test that group, whatever both have in common. So N runs are
N (N − 1)/2 tests, where one that is compared with the unchanged episode alone is one. A factor has a *code*, a bit per
run, and is changed between two runs in which its bits differ. A target tells something about the factors that are
changed between two runs if none of its known parents is: for each pair of runs that its parents leave alone, and each
factor whose code separates them, a pair of factor and target is ruled out, if it is no edge.

Codes are improved one factor at a time. Targets with the same parents are one *family*, which makes this fast.
"""

from dataclasses import dataclass

import numpy as np

_MOST_RUNS = 6
"""New runs of a plan at most. On 10×10 lights most plans have three to five: more runs rule out less per run."""
_STARTS = 4
"""Random codes from which each number of runs is tried. Where all edges of 10×10 lights are known, 20 episodes per pair
take 193 runs with one start and 182 with four."""
_SWEEPS = 6
"""How often every factor's code is improved."""
_THINNED = 0.03
"""Probability that a factor's code is drawn at random among those that leave its targets as informative as they are."""
_LIKELY = 100.0
"""Value of testing a pair for which all similar targets have an edge, in units of a pair for which none has."""


def plan(
    known: np.ndarray, need: np.ndarray, rng: np.random.Generator, runs: np.ndarray | None = None, *, all_pairs: bool
) -> np.ndarray:
    """Return groups ``(B, n)`` to change in the next runs of an episode, to rule out pairs if only `known` are edges.

    `need` ``(n, m)`` says in how many more episodes each pair is to be ruled out. Those that lag behind come first, and
    those that are edges by their `likeness`. The plan has as many runs as rule out the most per run. A run in which
    nothing is changed precedes it, unless `runs` ``(k, n)`` of this episode, the first of which is that one, exist.
    With `all_pairs` every two runs are compared, otherwise each with the first alone.

    >>> groups = plan(np.eye(8, dtype=bool), np.ones((8, 8)), np.random.default_rng(0), all_pairs=True)
    >>> runs = np.vstack([np.zeros(8, bool), groups])
    >>> changed = runs[:, None] ^ runs[None]  # a target tells of the others where its only parent is unchanged
    >>> bool((changed[..., :, None] & ~changed[..., None, :]).any(axis=(0, 1)).mean() > 0.5)
    True
    """
    n = len(known)
    runs = np.zeros((0, n), bool) if runs is None else runs
    worth = np.where(known, 0.0, np.square(need) * (1 + _LIKELY * likeness(known)))
    wanted = worth.any(axis=0)
    if not wanted.any():
        return np.zeros((0, n), bool)
    families, member = np.unique(known[:, wanted], axis=1, return_inverse=True)
    of_families = np.zeros((families.shape[1], n))
    np.add.at(of_families, member.ravel(), worth[:, wanted].T)
    first = max(len(runs), 1)
    best, most = np.zeros((0, n), bool), -1.0
    for more in range(1, _MOST_RUNS + 1):
        values = []
        for _ in range(_STARTS):
            codes = _Codes.random(families.T, of_families, runs, first + more, rng, all_pairs)
            values.append(codes.improve(rng) / (more + (first > len(runs))))
            if values[-1] > most:
                best, most = codes.groups(rng)[first:], values[-1]
        if max(values) < most:
            break
    return best


def likeness(known: np.ndarray) -> np.ndarray:
    """Return the share of targets like it that have this parent, ``(n, m)``: cos⁴ of the angle between parents is the
    weight.

    >>> likeness(np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]], bool))[:, 1]  # the second target is like the first
    array([1., 1., 0.], dtype=float32)
    """
    parents = known.astype(np.float32)
    unit = parents / np.maximum(np.sqrt(parents.sum(axis=0)), 1.0)
    alike = (unit.T @ unit) ** 4
    np.fill_diagonal(alike, 0.0)
    return parents @ alike / np.maximum(alike.sum(axis=0), 1e-6)


@dataclass
class _Codes:
    """A code per factor, and what they rule out."""

    parents: np.ndarray
    """Families and the factors that are their parents, booleans ``(F, n)``."""
    worth: np.ndarray
    """What it is worth to rule out a factor for a family, ``(F, n)``."""
    bits: np.ndarray
    """Codes and the runs in which they change a factor, booleans ``(C, N)``."""
    separates: np.ndarray
    """Codes and the pairs of runs that they separate, 0 or 1, ``(C, P)``."""
    allowed: np.ndarray
    """Factors and the codes that agree with runs made before, booleans ``(n, C)``."""
    code: np.ndarray
    """The code of every factor, ``(n,)``."""

    @classmethod
    def random(
        cls,
        parents: np.ndarray,
        worth: np.ndarray,
        runs: np.ndarray,
        n_runs: int,
        rng: np.random.Generator,
        all_pairs: bool,
    ) -> "_Codes":
        """Draw a pair of runs for every family, and for every factor a code that leaves the pairs of its families
        alone."""
        first = max(len(runs), 1)
        free = n_runs - first
        made = np.zeros((1, parents.shape[1]), bool) if not len(runs) else runs
        prefixes, of_factor = np.unique(made.T, axis=0, return_inverse=True)
        patterns = (np.arange(2**free)[:, None] >> np.arange(free)) % 2 == 1
        bits = np.hstack([np.repeat(prefixes, 2**free, axis=0), np.tile(patterns, (len(prefixes), 1))])
        allowed = np.arange(len(bits)) // 2**free == of_factor.reshape(-1, 1)
        a, b = np.triu_indices(n_runs, 1)
        # What earlier runs have ruled out is not worth anything any more, and needs no pair.
        chosen = (b >= first) & (all_pairs | (a == 0))
        separates = (bits[:, a[chosen]] ^ bits[:, b[chosen]]).astype(np.float32)
        pair = rng.integers(separates.shape[1], size=len(parents))
        touched = (parents.T.astype(np.float32) @ np.eye(separates.shape[1], dtype=np.float32)[pair]) @ separates.T
        # As few families as can be are disturbed; then any code but the one that changes nothing.
        score = touched - 0.5 * separates.any(axis=1) + 0.1 * rng.random(allowed.shape)
        return cls(parents, worth, bits, separates, allowed, np.where(allowed, score, np.inf).argmin(axis=1))

    def improve(self, rng: np.random.Generator) -> float:
        """Change codes one factor at a time as long as that rules out more; return what all are worth."""
        by_code = np.zeros((len(self.parents), len(self.bits)))  # worth of the factors that have each code
        np.add.at(by_code.T, self.code, self.worth.T)
        disturbed = self.parents.astype(np.float32) @ self.separates[self.code]
        told = ((disturbed == 0).astype(np.float32) @ self.separates.T > 0).astype(np.float32)
        for _ in range(_SWEEPS):
            changed = False
            for i in rng.permutation(self.parents.shape[1]):
                old, theirs = self.code[i], np.flatnonzero(self.parents[:, i])
                value = self.worth[:, i] @ told
                left = disturbed[theirs] - self.separates[old]
                still = (left == 0)[:, None] & (self.separates == 0)[None]  # families, codes, pairs
                would_tell = still.astype(np.float32) @ self.separates.T > 0  # families, codes of i, codes of others
                value += (would_tell * by_code[theirs][:, None]).sum(axis=(0, 2))
                value = np.where(self.allowed[i], value, -1.0)
                new = rng.choice(np.flatnonzero(value >= value.max() * (1 - 1e-9)))
                if new == old:
                    continue
                changed |= bool(value[new] > value[old] * (1 + 1e-9))
                self.code[i] = new
                by_code[:, old] -= self.worth[:, i]
                by_code[:, new] += self.worth[:, i]
                disturbed[theirs] = left + self.separates[new]
                told[theirs] = would_tell[:, new]
            if not changed:
                break
        return float((told * by_code).sum())

    def groups(self, rng: np.random.Generator) -> np.ndarray:
        """Return all runs ``(N, n)``, with some codes drawn anew: two factors whose changes cancel must not always be
        changed together."""
        quiet = (self.parents.astype(np.float32) @ self.separates[self.code] == 0).astype(np.float32)
        harmless = self.allowed & (self.parents.T.astype(np.float32) @ quiet @ self.separates.T == 0)
        drawn = np.where(harmless, rng.random(harmless.shape), -1.0).argmax(axis=1)
        code = np.where(rng.random(len(self.code)) < _THINNED, drawn, self.code)
        told = (quiet @ self.separates.T > 0)[:, code] * self.worth
        return self.bits[code if told.any() else self.code].T
