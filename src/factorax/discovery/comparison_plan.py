"""Plans of the runs of an episode: which factors to change in which run, if every two runs are a test.

Two runs of an episode that differ in a group of factors test that group, independently of what they have in common. N
runs are therefore N (N − 1)/2 tests; compared only with the unchanged run, they would be N − 1. A factor has a *code*,
one bit per run, and is changed between two runs in which its bits differ. Two runs test a target only if they differ in
none of its known parents. They then rule out, for this target, each factor that they differ in, unless it has an edge.

Codes are improved one factor at a time. Targets with the same parents form a *family* and are treated as one, which
makes this fast.
"""

from dataclasses import dataclass

import numpy as np

MAX_RUNS = 6
"""Maximum number of new runs in a plan. On 10×10 lights, most plans have three to five: more runs rule out less per
run."""
RANDOM_STARTS = 4
"""Number of random initial codes for each number of runs. If all edges of 10×10 lights are known, 20 episodes per pair
take 193 runs with one initial code and 182 with four."""
MAX_SWEEPS = 6
"""Maximum number of passes over all factors."""
RANDOM_CODES = 0.03
"""Probability that a factor's code is replaced by a random one that does not reduce what its targets can test."""
WORTH_OF_LIKELY = 100.0
"""Value of testing a pair if all similar targets have the edge, relative to a pair for which none has."""


def plan(
    known: np.ndarray, need: np.ndarray, rng: np.random.Generator, runs: np.ndarray | None = None, *, all_pairs: bool
) -> np.ndarray:
    """Return groups ``(B, n)`` to change in the next runs of an episode, to rule out pairs if only `known` are edges.

    `need` ``(n, m)`` is the number of further episodes in which each pair must be ruled out. Pairs that need the most,
    and pairs that are likely edges by their `likeness`, have priority. The number of runs is the one that rules out the
    most per run. The plan assumes an unchanged run before it, unless earlier `runs` ``(k, n)`` of this episode,
    starting with the unchanged one, are given. With `all_pairs` every two runs are compared, otherwise each only with
    the first.

    >>> groups = plan(np.eye(8, dtype=bool), np.ones((8, 8)), np.random.default_rng(0), all_pairs=True)
    >>> runs = np.vstack([np.zeros(8, bool), groups])
    >>> changed = runs[:, None] ^ runs[None]  # a target tests the others if its only parent is unchanged
    >>> bool((changed[..., :, None] & ~changed[..., None, :]).any(axis=(0, 1)).mean() > 0.5)
    True
    """
    n = len(known)
    runs = np.zeros((0, n), bool) if runs is None else runs
    worth = np.where(known, 0.0, np.square(need) * (1 + WORTH_OF_LIKELY * likeness(known)))
    searched = worth.any(axis=0)
    if not searched.any():
        return np.zeros((0, n), bool)
    # Targets with the same parents are told apart by no run, and grids have many of them.
    families, member = np.unique(known[:, searched], axis=1, return_inverse=True)
    of_families = np.zeros((families.shape[1], n))
    np.add.at(of_families, member.ravel(), worth[:, searched].T)
    first = max(len(runs), 1)
    best, most = np.zeros((0, n), bool), -1.0
    for more in range(1, MAX_RUNS + 1):
        values = []
        for _ in range(RANDOM_STARTS):
            codes = _Codes.random(families.T, of_families, runs, first + more, rng, all_pairs)
            values.append(codes.improve(rng) / (more + (first > len(runs))))
            if values[-1] > most:
                best, most = codes.groups(rng)[first:], values[-1]
        # The value per run falls from here on: more runs disturb more targets.
        if max(values) < most:
            break
    return best


def likeness(known: np.ndarray) -> np.ndarray:
    """Return for each pair the fraction of similar targets with this parent, ``(n, m)``, weighted by cos⁴ of the angle
    between parents.

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
    """The codes of all factors, and what they rule out."""

    parents: np.ndarray
    """The parents of each family, booleans ``(F, n)``."""
    worth: np.ndarray
    """Value of ruling out a factor for a family, ``(F, n)``."""
    bits: np.ndarray
    """The runs in which each code changes a factor, booleans ``(C, N)``."""
    separates: np.ndarray
    """The pairs of runs between which each code differs, 0 or 1, ``(C, P)``."""
    allowed: np.ndarray
    """The codes of each factor that agree with earlier runs, booleans ``(n, C)``."""
    code: np.ndarray
    """The code of each factor, ``(n,)``."""

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
        """Return random codes: draw a pair of runs for each family, and for each factor a code that does not differ
        between the pairs of its families."""
        first = max(len(runs), 1)
        free = n_runs - first
        earlier = np.zeros((1, parents.shape[1]), bool) if not len(runs) else runs
        prefixes, of_factor = np.unique(earlier.T, axis=0, return_inverse=True)
        patterns = (np.arange(2**free)[:, None] >> np.arange(free)) % 2 == 1
        bits = np.hstack([np.repeat(prefixes, 2**free, axis=0), np.tile(patterns, (len(prefixes), 1))])
        allowed = np.arange(len(bits)) // 2**free == of_factor.reshape(-1, 1)
        a, b = np.triu_indices(n_runs, 1)
        # Pairs of earlier runs have been evaluated already and add nothing.
        chosen = (b >= first) & (all_pairs | (a == 0))
        separates = (bits[:, a[chosen]] ^ bits[:, b[chosen]]).astype(np.float32)
        pair = rng.integers(separates.shape[1], size=len(parents))
        touched = (parents.T.astype(np.float32) @ np.eye(separates.shape[1], dtype=np.float32)[pair]) @ separates.T
        # Disturb as few families as possible; among equals, prefer codes that change something.
        score = touched - 0.5 * separates.any(axis=1) + 0.1 * rng.random(allowed.shape)
        return cls(parents, worth, bits, separates, allowed, np.where(allowed, score, np.inf).argmin(axis=1))

    def improve(self, rng: np.random.Generator) -> float:
        """Improve codes one factor at a time until nothing more can be ruled out; return the total value."""
        by_code = np.zeros((len(self.parents), len(self.bits)))  # total value of the factors with each code
        np.add.at(by_code.T, self.code, self.worth.T)
        disturbed = self.parents.astype(np.float32) @ self.separates[self.code]
        informs = ((disturbed == 0).astype(np.float32) @ self.separates.T > 0).astype(np.float32)
        for _ in range(MAX_SWEEPS):
            changed = False
            for i in rng.permutation(self.parents.shape[1]):
                old, families_of_factor = self.code[i], np.flatnonzero(self.parents[:, i])
                value = self.worth[:, i] @ informs
                remaining = disturbed[families_of_factor] - self.separates[old]
                still = (remaining == 0)[:, None] & (self.separates == 0)[None]  # families, codes, pairs
                would_inform = still.astype(np.float32) @ self.separates.T > 0  # families, codes of i, codes of others
                value += (would_inform * by_code[families_of_factor][:, None]).sum(axis=(0, 2))
                value = np.where(self.allowed[i], value, -1.0)
                # At random among equals, so that the plans of several episodes differ.
                new = rng.choice(np.flatnonzero(value >= value.max() * (1 - 1e-9)))
                if new == old:
                    continue
                changed |= bool(value[new] > value[old] * (1 + 1e-9))
                self.code[i] = new
                by_code[:, old] -= self.worth[:, i]
                by_code[:, new] += self.worth[:, i]
                disturbed[families_of_factor] = remaining + self.separates[new]
                informs[families_of_factor] = would_inform[:, new]
            if not changed:
                break
        return float((informs * by_code).sum())

    def groups(self, rng: np.random.Generator) -> np.ndarray:
        """Return all runs ``(N, n)``. Some codes are replaced by random ones, so that two factors whose changes cancel
        are not always changed together."""
        quiet = (self.parents.astype(np.float32) @ self.separates[self.code] == 0).astype(np.float32)
        harmless = self.allowed & (self.parents.T.astype(np.float32) @ quiet @ self.separates.T == 0)
        drawn = np.where(harmless, rng.random(harmless.shape), -1.0).argmax(axis=1)
        code = np.where(rng.random(len(self.code)) < RANDOM_CODES, drawn, self.code)
        informs = (quiet @ self.separates.T > 0)[:, code] * self.worth
        return self.bits[code if informs.any() else self.code].T
