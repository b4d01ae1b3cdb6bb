"""Plans of runs, every two of which are a test: what they rule out, and what they may cost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factorax.discovery.comparison_plan import likeness, plan

matrices = st.integers(1, 12).flatmap(
    lambda n: st.integers(1, 9).flatmap(
        lambda m: st.lists(st.lists(st.booleans(), min_size=m, max_size=m), min_size=n, max_size=n)
    )
)


def ruled_out(runs, known, all_pairs):
    """Pairs of a factor that differs between two runs, and a target whose parents do not, by brute force."""
    result = np.zeros_like(known)
    for b in range(len(runs)):
        for a in range(b if all_pairs else min(b, 1)):
            changed = runs[a] ^ runs[b]
            result |= changed[:, None] & ~(changed[:, None] & known).any(axis=0)[None]
    return result


@settings(max_examples=20)
@given(matrices, st.integers(0, 3), st.booleans())
def test_plans_rule_out_all_that_is_no_edge_as_often_as_needed(rows, seed, all_pairs):
    known, rng = np.array(rows, bool), np.random.default_rng(seed)
    need = np.where(known, 0, 2)
    for _ in range(200):
        if not (need > 0).any():
            break
        groups = plan(known, need, rng, all_pairs=all_pairs)
        out = ruled_out(np.vstack([np.zeros((1, len(known)), bool), groups]), known, all_pairs)
        assert (out & (need > 0)).any()  # every episode is of use
        assert not (out & known).any()
        need = np.maximum(need - out, 0)
    assert not need.any()


def test_nothing_is_planned_if_nothing_is_needed():
    assert plan(np.eye(3, dtype=bool), np.zeros((3, 3)), np.random.default_rng(0), all_pairs=True).shape == (0, 3)


def test_runs_made_before_are_compared_with():
    """The first run changes one half of the factors. One run more rules out as much as two would without it."""
    known = np.eye(8, dtype=bool)
    runs = np.array([[False] * 8, [True] * 4 + [False] * 4])
    before = ruled_out(runs, known, True)
    groups = plan(known, np.where(before, 0, 1), np.random.default_rng(0), runs, all_pairs=True)
    after = ruled_out(np.vstack([runs, groups]), known, True)
    assert (after & ~before).sum() >= 8 * len(groups)


@pytest.mark.parametrize("all_pairs", [True, False])
def test_a_plan_for_corridors_takes_few_runs(all_pairs):
    """6×6 lights, one target a street: to change lights one by one would take 37 runs an episode."""
    row, column = np.divmod(np.arange(36), 6)
    known = np.hstack([row[:, None] == np.arange(6), column[:, None] == np.arange(6)])
    need, runs, rng = np.where(known, 0, 2), 0, np.random.default_rng(0)
    while need.any():
        groups = plan(known, need, rng, all_pairs=all_pairs)
        made = np.vstack([np.zeros((1, 36), bool), groups])
        need = np.maximum(need - ruled_out(made, known, all_pairs), 0)
        runs += len(made)
    assert runs < 2 * 37 / 2


def test_codes_that_cancel_are_not_always_alike():
    """Two factors without an edge have the same value in every respect, and are yet told apart in some episode."""
    known, rng = np.zeros((6, 4), bool), np.random.default_rng(0)
    known[2:, :] = np.eye(4, dtype=bool)
    groups = [plan(known, np.ones((6, 4)), rng, all_pairs=True) for _ in range(20)]
    assert sum(bool((each[:, 0] != each[:, 1]).any()) for each in groups) >= 3


def test_likeness_of_a_target_without_parents_is_zero():
    assert not likeness(np.array([[True, False], [True, False]]))[:, 1].any()
