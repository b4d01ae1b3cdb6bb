"""Unions and intersections of two networks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import matrices, quietly

from factorax import InfluenceNetwork


@quietly
@given(matrices(), st.data())
def test_union_is_the_larger_and_intersection_the_smaller_weight(matrix, data):
    other = matrix[data.draw(st.permutations(range(len(matrix))))]
    a, b = InfluenceNetwork(matrix), InfluenceNetwork(other)
    np.testing.assert_array_equal((a | b).to_dense(), np.maximum(matrix, other))
    np.testing.assert_array_equal((a & b).to_dense(), np.minimum(matrix, other))
    assert a | a == a & a == a
    assert a.union(b) == b.union(a)
    assert a.intersection(b) == b.intersection(a)


def test_the_union_keeps_labels():
    net = InfluenceNetwork([[1, 0.5]], ["x"], ["p", "q"])
    assert (net | net.relabel()).actions == ("x",)
    assert net | net == net


def test_networks_that_do_not_match_are_not_combined():
    net = InfluenceNetwork.complete(2, 2)
    with pytest.raises(ValueError, match=r"other: got shape \(2, 3\), want \(2, 2\)"):
        net | InfluenceNetwork.complete(2, 3)
    with pytest.raises(
        ValueError, match=r"other: actions differ \('a2' against 'z'\), want the same; .*select\(\).*relabel\(\)"
    ):
        net & net.relabel(actions=["a1", "z"])
    with pytest.raises(ValueError, match=r"other: targets differ \('psi1' against 'psi2'\)"):
        net | net.relabel(targets=["psi2", "psi1"])
    with pytest.raises(TypeError, match=r"other: got float, want an InfluenceNetwork"):
        net.union(1.0)


def test_a_matrix_is_combined_like_a_network():
    net = InfluenceNetwork([[1, 0], [0, 1]], actions=["x", "y"])
    with pytest.raises(ValueError, match="other: actions differ"):
        net.union(np.ones((2, 2)))
    assert InfluenceNetwork.identity(2).union([[0, 1], [1, 1]]).n_edges == 4
