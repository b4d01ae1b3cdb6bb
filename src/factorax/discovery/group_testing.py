"""Group testing: which factor changed which target, from tests that change several factors at once.

A *test* changes a group of factors and observes which targets moved. For each target separately:

- if it did not move, no factor of the group influences it (in this trial);
- if it moved, and no factor of the group is known to influence it, one of those not yet ruled out does. If only one
  is left, it is most likely an edge.

Groups are chosen so that their outcome is as uncertain as can be over all targets. A target with few parents among n
factors then takes about log₂ n tests, and all targets share them. Where parents are many, factors are tested one by
one, which is then as cheap. Once most edges are known, groups that avoid them rule out many pairs at a time
(`factorax.discovery.comparison_plan`), and the factor that moved a target after all is first sought among the parents
of targets like it (`likely`).

Elimination may be wrong: two changes can cancel, such as those of two bits in their parity, or one can hide another. It
therefore only *suggests* edges; see `factorax.discovery.interventional` for how they are confirmed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from .comparison_plan import likeness

Test = Callable[[np.ndarray], np.ndarray]
"""Maps groups, booleans ``(B, n)``, to the targets that each moved, booleans ``(B, m)``."""
CANDIDATES = 24
"""Number of candidate groups of each kind."""
IMPROVED_CANDIDATES = 3
"""Number of candidates that are improved further."""
DENSE_SHARE = 0.055
"""Share of edges above which groups are no cheaper than single factors: its entropy is 0.3 bits."""
MIN_LIKENESS = 0.3
"""Likeness above which a suspect is changed alone."""


@dataclass(frozen=True)
class Trial:
    """The tests of one trial, and the edges that follow from them."""

    groups: np.ndarray
    """The tested groups, booleans ``(tests, n)``."""
    moved: np.ndarray
    """The targets that moved, booleans ``(tests, m)``."""
    edges: np.ndarray
    """Pairs with an edge, including those known before, ``(n, m)``."""
    open: np.ndarray
    """Pairs about which nothing is known yet, ``(n, m)``."""

    @property
    def unexplained(self) -> np.ndarray:
        """Tests and targets that moved although no known edge leads there, ``(tests, m)``."""
        return self.moved & ~any_of(self.groups, self.edges)


def shown(groups: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Return pairs ``(n, m)`` of a factor that was changed alone and a target that it moved."""
    alone = groups.sum(axis=1) == 1
    return any_of(groups[alone].T, moved[alone])


def decode(groups: np.ndarray, moved: np.ndarray, known: np.ndarray) -> Trial:
    """Return the conclusions from tests, given edges that are `known` from earlier trials.

    >>> groups, moved = np.array([[1, 1, 0], [1, 0, 0]], bool), np.array([[1], [0]], bool)
    >>> decode(groups, moved, np.zeros((3, 1), bool)).edges[:, 0]  # the pair moved it and the first did not
    array([False,  True, False])
    """
    edges, ruled_out = known | shown(groups, moved), any_of(groups.T, ~moved)
    while True:
        is_open = ~ruled_out & ~edges
        # The only open factor of a group must have moved the target, if no known edge can have.
        last = moved & ~any_of(groups, edges) & (_count(groups, is_open) == 1)
        if not last.any():
            return Trial(groups=groups, moved=moved, edges=edges, open=is_open)
        edges = edges | (any_of(groups.T, last) & is_open)


def resolve(test: Test, known: np.ndarray, rng: np.random.Generator, rate: float) -> Trial:
    """Test groups sequentially until each pair is an edge or ruled out; single factors are tested if edges are dense.

    `known` edges ``(n, m)`` are taken for granted, and groups avoid them. Among the other pairs, edges are expected
    with the frequency `rate`.

    >>> truth = np.eye(64, dtype=bool)
    >>> trial = resolve(lambda groups: groups @ truth, np.zeros_like(truth), np.random.default_rng(0), 0.02)
    >>> (trial.edges == truth).all(), len(trial.groups) < 30
    (np.True_, True)
    """
    n, m = known.shape
    groups, moved = np.zeros((0, n), bool), np.zeros((0, m), bool)
    trial = decode(groups, moved, known)
    # A rate of 0 would make every outcome certain and all groups equal.
    rate = float(np.clip(rate, 0.1 / n, 0.5))
    while trial.open.any():
        dense = (rate * trial.open + trial.edges).mean() > DENSE_SHARE
        new = np.eye(n, dtype=bool) if dense else next_group(trial, rng, rate)[None]
        outcome = test(new)
        open_pairs = ~any_of(new, trial.edges)[0] & any_of(new, trial.open)[0]
        if open_pairs.any():
            expected = 1 - (1 - rate) ** _count(new[:1], trial.open)[0][open_pairs]
            rate = float(np.clip(rate * np.clip(outcome[0][open_pairs].mean() / expected.mean(), 0.5, 2.0), 1e-9, 0.5))
        groups, moved = np.vstack([groups, new]), np.vstack([moved, outcome])
        trial = decode(groups, moved, known)
        if dense:
            break
    return trial


def next_group(trial: Trial, rng: np.random.Generator, rate: float | None = None) -> np.ndarray:
    """Return the group ``(n,)`` with the most uncertain outcome among a few candidates.

    Open pairs are edges with the frequency `rate`; without it, only pairs that may explain a moved target are tested.
    """
    targets, suspects, _ = suspects_of(trial)
    n = len(suspects)
    open_pairs = trial.open & (rate is not None)
    open_pairs[:, targets] |= suspects
    log_none = np.where(open_pairs, np.log1p(np.float32(-(rate or 1e-6))), np.float32(0.0))
    of_suspects = np.where(suspects, log_none[:, targets], np.float32(0.0))
    log_none[:, targets] -= of_suspects
    any_suspect = np.expm1(of_suspects.sum(axis=0))
    parents = trial.edges.astype(np.float32)

    def information(groups: np.ndarray) -> np.ndarray:
        """Return the entropy of each group's outcome, summed over targets, ``(B,)``."""
        groups = groups.astype(np.float32)
        moves = -np.expm1(groups @ log_none)  # expm1 is accurate for small values
        moves[:, targets] += (1 - moves[:, targets]) * (np.expm1(groups @ of_suspects) / any_suspect)
        moves = np.clip(moves, 0.0, 1.0)
        return ((entr(moves) + entr(1 - moves)) * (groups @ parents < 0.5)).sum(axis=1)

    active = open_pairs.any(axis=1)
    # Half of the factors at most: two whose changes cancel must not always be together.
    size = 0.5 ** rng.integers(1, int(np.log2(n)) + 3, CANDIDATES)
    anywhere = (rng.random((CANDIDATES, n)) < size[:, None]) & active
    one_target = rng.choice(np.flatnonzero(open_pairs.any(axis=0)), CANDIDATES)  # whose open factors form a group
    size = 0.5 ** rng.integers(0, 4, CANDIDATES)
    for_one = open_pairs[:, one_target].T & (rng.random((CANDIDATES, n)) < size[:, None])
    singles = np.eye(n, dtype=bool)[np.argsort(-open_pairs.sum(axis=1))[:4]]
    candidates = np.vstack([anywhere, for_one, singles, active])
    value = information(candidates)
    order = np.argsort(-value)[:IMPROVED_CANDIDATES]
    best, most = np.vstack([candidates[order], active]), np.append(value[order], value[-1])
    # Leave out the parents of one target at a time, as long as that tells more about the others.
    for family in rng.permutation(np.unique(trial.edges, axis=1).T)[: 2 * CANDIDATES]:
        less = best & ~family
        value = information(less)
        better = value > most
        best[better], most[better] = less[better], value[better]
    return best[most.argmax()]


def likely(trial: Trial, known: np.ndarray) -> np.ndarray:
    """Return the factor that most likely moved unexplained targets, because similar targets have it as a parent.

    Booleans ``(n,)``, with at most one True; all False if no suspect stands out.
    """
    targets, suspects, _ = suspects_of(trial)
    share = np.where(suspects, likeness(known)[:, targets], 0.0)
    share /= np.maximum(share.sum(axis=0), 1e-12)
    standing = np.where(share > MIN_LIKENESS, share, 0.0).sum(axis=1)
    return (np.arange(len(known)) == standing.argmax()) & standing.any()


def suspects_of(trial: Trial) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return targets ``(k,)`` that moved though no edge leads there, the suspects in the test that has the fewest,
    ``(n, k)``, and that test, ``(k,)``.

    Targets without a suspect are left out.
    """
    count = _count(trial.groups, trial.open)
    left = np.where(trial.unexplained & (count > 0), count, len(trial.open) + 1)
    targets = np.flatnonzero((left <= len(trial.open)).any(axis=0))
    if not len(targets):
        return targets, np.zeros((len(trial.open), 0), bool), targets
    tests = left[:, targets].argmin(axis=0)
    return targets, trial.groups[tests].T & trial.open[:, targets], tests


def any_of(groups: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Return whether a group ``(B, n)`` contains one of the pairs ``(n, m)``, for each target: a boolean product."""
    # In single precision by BLAS, which is many times as fast as a product of booleans.
    return groups.astype(np.float32) @ pairs.astype(np.float32) > 0.5


def _count(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.rint(a.astype(np.float32) @ b.astype(np.float32)).astype(np.int64)
