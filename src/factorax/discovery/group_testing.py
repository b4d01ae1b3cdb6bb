"""Who moved what, from tests of several factors at once.

A *test* changes a group of factors and tells which targets moved. For every target on its own:

- it did not move: no factor of the group reaches it (in this trial);
- it moved, and no factor of the group is known to reach it: one of those not yet ruled out does. If one is left, that
  is most likely an edge.

Groups are chosen so that their outcome is as uncertain as can be over all targets. A target with few parents among n
factors then takes about log₂ n tests, and all targets share them. Where parents are many, factors are tested one by
one, which is then as cheap.

What is found by elimination may be wrong: two changes can cancel, as those of two bits in their parity, or one can hide
another. So elimination only *suggests* edges; see `factorax.discovery.interventional` for how they are confirmed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Test = Callable[[np.ndarray], np.ndarray]
"""From groups, booleans ``(B, n)``, to the targets that each moved, booleans ``(B, m)``."""
_TRIED = 24
"""Groups of each sort among which the best is taken."""
_CLIMBED = 3
"""Of them, those that are improved."""
KEPT = 0.85
"""The chance of a factor to stay in a planned group."""
_DENSE = 0.055
"""The share of edges from which on groups are no cheaper than single factors: their entropy is 0.3 bits."""
_LOOK = 6
"""Tests after which that share is believed."""


@dataclass(frozen=True)
class Trial:
    """What the tests of one trial tell."""

    groups: np.ndarray
    """Booleans ``(tests, n)``."""
    moved: np.ndarray
    """Booleans ``(tests, m)``."""
    edges: np.ndarray
    """Pairs with an edge, those known before included, ``(n, m)``."""
    open: np.ndarray
    """Pairs of which nothing is known yet, ``(n, m)``."""

    @property
    def unexplained(self) -> np.ndarray:
        """Tests and targets that moved though no known edge leads there, ``(tests, m)``."""
        return self.moved & ~_any(self.groups, self.edges)


def decode(groups: np.ndarray, moved: np.ndarray, known: np.ndarray) -> Trial:
    """What follows from tests, given edges that are `known` from earlier trials.

    >>> groups, moved = np.array([[1, 1, 0], [1, 0, 0]], bool), np.array([[1], [0]], bool)
    >>> decode(groups, moved, np.zeros((3, 1), bool)).edges[:, 0]  # the pair moved it and the first did not
    array([False,  True, False])
    """
    edges = known | _any(groups[groups.sum(axis=1) == 1].T, moved[groups.sum(axis=1) == 1])
    ruled_out = _any(groups.T, ~moved)
    while True:
        is_open = ~ruled_out & ~edges
        last = moved & ~_any(groups, edges) & (_count(groups, is_open) == 1)
        if not last.any():
            return Trial(groups, moved, edges, is_open)
        edges = edges | (_any(groups.T, last) & is_open)


def resolve(test: Test, known: np.ndarray, rng: np.random.Generator) -> Trial:
    """Test groups, one after the other, until every pair is an edge or ruled out; of single factors where edges abound.

    `known` edges ``(n, m)`` are taken for granted, and groups avoid them: what is new is found among the rest.

    >>> truth = np.eye(64, dtype=bool)
    >>> trial = resolve(lambda groups: groups @ truth, np.zeros_like(truth), np.random.default_rng(0))
    >>> (trial.edges == truth).all(), len(trial.groups) < 30
    (np.True_, True)
    """
    n, m = known.shape
    groups, moved, everyone = np.zeros((0, n), bool), np.zeros((0, m), bool), np.ones_like(known)
    trial = decode(groups, moved, known)
    rate = 1.0 / n  # of edges among open pairs
    while trial.open.any():
        share = (rate * trial.open + trial.edges).mean()
        dense = len(groups) >= min(_LOOK, n) and share > _DENSE
        new = np.eye(n, dtype=bool) if dense else next_group(trial, everyone, rate, rng)[0][None]
        outcome = test(new)
        asked = ~_any(new, trial.edges)[0] & _any(new, trial.open)[0]
        if asked.any():
            expected = 1 - (1 - rate) ** _count(new[:1], trial.open)[0][asked]
            rate = float(np.clip(rate * np.clip(outcome[0][asked].mean() / expected.mean(), 0.5, 2.0), 1e-9, 0.5))
        groups, moved = np.vstack([groups, new]), np.vstack([moved, outcome])
        trial = decode(groups, moved, known)
        if dense:
            break
    return trial


def plan(known: np.ndarray, wanted: np.ndarray, rng: np.random.Generator, *, least: float = 0.4) -> np.ndarray:
    """Groups ``(B, n)`` that rule out as many `wanted` pairs ``(n, m)`` as they can, if there are no edges but `known`.

    They end where the next one would rule out less than a share `least` of what the first does.

    >>> groups = plan(np.eye(8, dtype=bool), np.ones((8, 8), bool), np.random.default_rng(0), least=0.0)
    >>> bool((groups.T.astype(int) @ ~(groups @ np.eye(8, dtype=bool)) > 0)[~np.eye(8, dtype=bool)].all())
    True
    """
    n = len(known)
    groups, first = np.zeros((0, n), bool), 0.0
    while True:
        trial = decode(groups, _any(groups, known), known)
        group, told = next_group(trial, wanted, 0.1 / known.size, rng)
        first = first or told
        if told == 0 or told <= least * first:
            return groups
        # Two factors whose changes cancel must not always be changed together.
        thinned = group & (rng.random(n) < KEPT)
        groups = np.vstack([groups, thinned if thinned.any() else group])


def next_group(trial: Trial, wanted: np.ndarray, rate: float, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """The group whose outcome is the most uncertain, of some that are worth a look; and how much so."""
    is_open, edges = trial.open, trial.edges
    n, m = is_open.shape
    p = np.where(is_open & wanted, np.float32(rate), np.float32(0.0))
    unexplained = trial.unexplained
    if unexplained.any():  # for a target that moved, it was one of those left in the smallest such group
        left = np.where(unexplained, _count(trial.groups, is_open), n + 1)
        smallest = left.argmin(axis=0)
        suspects = trial.groups[smallest].T & is_open & unexplained.any(axis=0)
        p = np.where(suspects, 1 / np.maximum(left[smallest, np.arange(m)], 1).astype(np.float32), p)
    if not p.any():
        return np.zeros(n, bool), 0.0
    log_none = np.log1p(-np.minimum(p, np.float32(0.999)))
    parents = edges.astype(np.float32)

    def worth(groups: np.ndarray) -> np.ndarray:
        """What each group's outcome tells, its entropy over all targets."""
        log_stays = groups @ log_none
        moves = -np.expm1(log_stays)  # which keeps its digits where it is small
        bits = -np.exp(log_stays) * log_stays - moves * np.log(np.maximum(moves, 1e-30))
        return (bits * (groups.astype(np.float32) @ parents < 0.5)).sum(axis=1)

    asked = p > 0
    active = asked.any(axis=1)
    size = 0.5 ** rng.integers(1, int(np.log2(n)) + 3, _TRIED)  # half at most: see KEPT
    anywhere = (rng.random((_TRIED, n)) < size[:, None]) & active
    some = rng.choice(np.flatnonzero(asked.any(axis=0)), _TRIED)  # all that is open for one target
    size = 0.5 ** rng.integers(0, 4, _TRIED)
    for_one = asked[:, some].T & (rng.random((_TRIED, n)) < size[:, None])
    singles = np.eye(n, dtype=bool)[np.argsort(-asked.sum(axis=1))[:4]]
    tried = np.vstack([anywhere, for_one, singles, active])
    value = worth(tried)
    order = np.argsort(-value)[:_CLIMBED]
    best, most = np.vstack([tried[order], active]), np.append(value[order], value[-1])
    families = np.unique(edges[:, edges.any(axis=0)], axis=1).T  # the parents of one target, and perhaps of many
    for family in rng.permutation(families)[: 2 * _TRIED]:  # leave one out more, as long as that tells more
        less = best & ~family
        value = worth(less)
        better = value > most
        best[better], most[better] = less[better], value[better]
    return best[most.argmax()], float(most.max())


def _count(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.rint(a.astype(np.float32) @ b.astype(np.float32)).astype(np.int64)


def _any(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float32) @ b.astype(np.float32) > 0.5
