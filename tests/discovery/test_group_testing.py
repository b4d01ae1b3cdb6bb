"""Group testing against all networks of a kind, and what it may cost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factorax.discovery.group_testing import decode, plan, resolve

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
    trial = resolve(counted(truth)[0], np.zeros_like(truth), np.random.default_rng(seed))
    np.testing.assert_array_equal(trial.edges, truth)
    assert not trial.open.any()


@pytest.mark.parametrize(("n", "most"), [(64, 30), (256, 45)])
def test_a_sparse_network_needs_few_tests(n, most):
    truth = np.eye(n, dtype=bool)[:, np.random.default_rng(0).permutation(n)]
    test, tests = counted(truth)
    np.testing.assert_array_equal(resolve(test, np.zeros_like(truth), np.random.default_rng(1)).edges, truth)
    assert len(tests) <= most


def test_a_dense_network_costs_hardly_more_than_one_at_a_time():
    truth = np.random.default_rng(0).random((40, 30)) < 0.5
    test, tests = counted(truth)
    np.testing.assert_array_equal(resolve(test, np.zeros_like(truth), np.random.default_rng(0)).edges, truth)
    assert len(tests) <= 50


def test_elimination_by_hand():
    groups = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]], bool)
    moved = np.array([[1, 0], [1, 1], [0, 1]], bool)
    trial = decode(groups, moved, np.zeros((3, 2), bool))
    # Target 0: the third is out, so that the second moved it, which explains the first test. Target 1: the third.
    assert trial.edges.tolist() == [[False, False], [True, False], [False, True]]
    assert trial.open.tolist() == [[True, False], [False, False], [False, False]]
    assert not trial.unexplained.any()


@given(matrices, st.integers(0, 3))
def test_a_plan_rules_out_all_that_is_no_edge(rows, seed):
    known = np.array(rows, bool)
    groups = plan(known, np.ones_like(known), np.random.default_rng(seed), least=0.0)
    stays = ~(groups @ known) if len(groups) else np.zeros((0, known.shape[1]), bool)
    ruled_out = (groups.T.astype(int) @ stays.astype(int)) > 0
    np.testing.assert_array_equal(ruled_out, ~known)
