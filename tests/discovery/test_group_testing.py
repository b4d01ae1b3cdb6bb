"""Group testing against all networks of a kind, and what it may cost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factorax.discovery.group_testing import decode, likely, next_group, resolve, suspects_of

matrices = st.integers(1, 12).flatmap(
    lambda n: st.integers(1, 9).flatmap(
        lambda m: st.lists(st.lists(st.booleans(), min_size=m, max_size=m), min_size=n, max_size=n)
    )
)


def counted(truth):
    tests = []

    def test(groups):
        tests.extend(groups)
        return groups @ truth

    return test, tests


@given(matrices, st.integers(0, 3))
def test_every_network_is_found(rows, seed):
    truth = np.array(rows, bool)
    trial = resolve(counted(truth)[0], np.zeros_like(truth), np.random.default_rng(seed), 0.2)
    np.testing.assert_array_equal(trial.edges, truth)
    assert not trial.open.any()


@pytest.mark.slow
@pytest.mark.parametrize(("n", "most"), [(64, 30), (256, 45)])
def test_a_sparse_network_needs_few_tests(n, most):
    truth = np.eye(n, dtype=bool)[:, np.random.default_rng(0).permutation(n)]
    test, tests = counted(truth)
    np.testing.assert_array_equal(resolve(test, np.zeros_like(truth), np.random.default_rng(1), 1 / n).edges, truth)
    assert len(tests) <= most


def test_a_dense_network_costs_hardly_more_than_one_at_a_time():
    truth = np.random.default_rng(0).random((40, 30)) < 0.5
    test, tests = counted(truth)
    np.testing.assert_array_equal(resolve(test, np.zeros_like(truth), np.random.default_rng(0), 0.5).edges, truth)
    assert len(tests) == 40


def test_elimination_by_hand():
    groups = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]], bool)
    moved = np.array([[1, 0], [1, 1], [0, 1]], bool)
    trial = decode(groups, moved, np.zeros((3, 2), bool))
    # Target 0: the third is out, so that the second moved it, which explains the first test. Target 1: the third.
    assert trial.edges.tolist() == [[False, False], [True, False], [False, True]]
    assert trial.open.tolist() == [[True, False], [False, False], [False, False]]
    assert not trial.unexplained.any()


def test_who_is_likely():
    """The first four share three parents, the last is apart: what moves the fourth is the parent that it lacks."""
    known = np.zeros((6, 5), bool)
    known[:3, :3] = known[:2, 3] = known[4:, 4] = True
    groups = np.array([[False, False, True, True, False, False]])
    trial = decode(groups, np.array([[True, True, True, True, False]]), known)
    targets, suspects, tests = suspects_of(trial)
    assert targets.tolist() == [3]
    assert suspects[:, 0].tolist() == groups[0].tolist()
    assert tests.tolist() == [0]
    assert np.flatnonzero(likely(trial, known)).tolist() == [2]
    assert not likely(trial, np.zeros_like(known)).any()  # none is like another


@pytest.mark.parametrize("n", [20, 100])
def test_one_new_edge_is_found_by_halves(n):
    """Of n factors in one group, among known edges elsewhere: log₂ n tests, and not the same one over and over."""
    known = np.eye(n, dtype=bool)[:, : n // 2]
    known = np.hstack([known, np.zeros((n, 1), bool)])
    truth = known.copy()
    truth[n - 3, -1] = True
    test, tests = counted(truth)
    groups, rng = np.ones((1, n), bool), np.random.default_rng(0)
    moved = test(groups)
    while True:
        trial = decode(groups, moved, known)
        if not len(suspects_of(trial)[0]):
            break
        new = next_group(trial, rng)[None]
        groups, moved = np.vstack([groups, new]), np.vstack([moved, test(new)])
    assert (trial.edges == truth).all()
    assert len(tests) <= 3 + 1.5 * np.log2(n)
