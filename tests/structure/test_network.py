"""Influence networks: sizes, labels, equality, factors and selections."""

import copy
import pickle
from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from strategies import factored_networks, matrices, networks, quietly

import factorax as fx
from factorax import Factorisation, InfluenceNetwork
from factorax.discovery import measure_lags
from factorax.problems import chain
from factorax.structure import PartitionMap, gallery
from factorax.structure.network import as_network

# ---- what it is -------------------------------------------------------------------------------------------


def test_complete_is_all_ones_and_identity_is_the_unit_matrix():
    assert InfluenceNetwork.complete(2, 3) == InfluenceNetwork(np.ones((2, 3)))
    assert InfluenceNetwork.identity(3) == InfluenceNetwork(np.eye(3))


@given(networks())
def test_counts_agree_with_the_dense_matrix(net):
    dense = net.to_dense()
    assert net.shape == dense.shape
    assert net.n_edges == np.count_nonzero(dense) == len(list(net.edges()))
    assert net.density == np.count_nonzero(dense) / dense.size
    assert net.is_soft == bool(((dense > 0) & (dense < 1)).any())


def test_a_huge_complete_network_costs_no_memory():
    n = 10**6
    net = InfluenceNetwork.complete(n, n)
    assert repr(net) == "InfluenceNetwork(1000000 actions → 1000000 targets, 1000000000000 edges, density 1)"
    assert net.n_edges == n * n
    assert not net.is_soft
    assert net == InfluenceNetwork.complete(n, n)
    assert net != InfluenceNetwork.complete(n, n - 1)
    assert (net.actions[-1], net.targets[-1]) == ("a1000000", "psi1000000")
    with pytest.raises(MemoryError, match=r"1000000 × 1000000 would have 1000000000000 entries; use credit\(\)"):
        _ = net.matrix


def test_a_huge_complete_network_is_relabelled_and_factored_without_its_matrix():
    n = 10**6
    net = InfluenceNetwork.complete(n, n)
    renamed = net.relabel(actions=range(n))
    assert renamed.actions[-1] == "999999"
    assert renamed.targets[-1] == "psi1000000"
    assert renamed != net
    assert renamed.relabel(actions=net.actions) == net
    sigma = net.minimum_factorisation()
    assert (len(sigma), sigma.n_actions) == (1, n)
    assert net.coparent_condition().shape == (n,)
    assert net.coparent_condition().all()


@pytest.mark.parametrize(
    ("n", "m", "error", "message"),
    [
        (0, 1, ValueError, "n: got 0, want a whole number of at least 1, and below 2³¹"),
        (1, -1, ValueError, "m: got -1, want a whole number of at least 1, and below 2³¹"),
        (2.0, 1, TypeError, r"n: got 2.0, want whole numbers"),
        (1, True, TypeError, r"m: got True, want whole numbers"),
    ],
)
def test_bad_sizes_of_a_complete_network_are_named(n, m, error, message):
    with pytest.raises(error, match=message):
        InfluenceNetwork.complete(n, m)


@pytest.mark.parametrize("name", ["matrix", "form", "shape", "actions", "factorisation", "made_complete", "new"])
@pytest.mark.parametrize("make", [lambda: InfluenceNetwork.identity(2), lambda: InfluenceNetwork.complete(2, 2)])
def test_attributes_cannot_be_assigned_or_deleted(make, name):
    net = make()
    _ = net.matrix, net.actions, hash(net)  # known values are kept
    with pytest.raises(AttributeError, match=f"{name}.*immutable"):
        setattr(net, name, None)
    with pytest.raises(AttributeError, match=f"{name}.*immutable"):
        delattr(net, name)
    assert net == make()


def test_writing_to_the_matrix_does_not_change_the_network():
    net = InfluenceNetwork([[1, 0.5], [0, 1]])
    net.matrix.data = np.zeros(3)
    np.testing.assert_array_equal(net.to_dense(), [[1, 0.5], [0, 1]])
    for array in (net.matrix.data, net.matrix.indices, net.matrix.indptr):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(TypeError, match="item assignment"):
        net.partition_maps["psi1"] = PartitionMap([1], 2)


@pytest.mark.parametrize("net", [InfluenceNetwork([[1, 0.5]], ["x"]), InfluenceNetwork.complete(2, 3)])
def test_copies_and_pickles_are_equal(net):
    for twin in (copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert twin == net
        np.testing.assert_array_equal(twin.to_dense(), net.to_dense())


# ---- equality ---------------------------------------------------------------------------------------------


@quietly
@given(networks(), st.data())
def test_one_edge_more_or_less_makes_another_network(net, data):
    dense = net.to_dense()
    i, j = data.draw(st.sampled_from(list(product(*map(range, net.shape)))))
    dense[i, j] = 1 - dense[i, j] if dense[i, j] in (0, 1) else 0
    assert InfluenceNetwork(dense, net.actions, net.targets) != net


@quietly
@given(networks(labelled=True))
def test_other_labels_make_another_network(net):
    primed = net.relabel(actions=[f"{name}'" for name in net.actions])
    assert primed != net
    assert net.relabel(targets=[f"{name}'" for name in net.targets]) != net
    assert primed.relabel(actions=net.actions) == net


def test_the_same_names_on_the_other_side_make_another_network():
    net = InfluenceNetwork.complete(2, 2)
    assert net.relabel(actions=["x", "y"]) != net.relabel(targets=["x", "y"])


def test_a_network_under_other_names_forgets_the_old_ones():
    net = InfluenceNetwork.identity(2)
    _ = net.actions, net.targets, net.partition_maps, hash(net)
    renamed = net.relabel(["x", "y"], ["p", "q"])
    assert renamed == InfluenceNetwork(np.eye(2), ["x", "y"], ["p", "q"])
    assert (renamed.actions, renamed.targets, list(renamed.partition_maps)) == (("x", "y"), ("p", "q"), ["p", "q"])


@quietly
@given(networks())
def test_a_network_rebuilt_is_equal_and_hashes_alike(net):
    again = InfluenceNetwork(net.to_dense().tolist(), list(net.actions), list(net.targets))
    assert again == net
    assert len({again, net}) == 1


def test_the_default_labels_said_aloud_change_nothing():
    net = InfluenceNetwork.complete(2, 2)
    assert net.relabel(["a1", "a2"], ["psi1", "psi2"]) == net
    assert net.relabel(["a2", "a1"]) != net


def test_a_soft_edge_is_not_a_whole_one():
    assert InfluenceNetwork([[1, 0.5]]) != InfluenceNetwork([[1, 1]])
    assert InfluenceNetwork([[0.25, 0.5]]) != InfluenceNetwork([[0.5, 0.25]])
    assert InfluenceNetwork([[0.5]]) != InfluenceNetwork([[np.nextafter(0.5, 1)]])


def test_the_same_edges_in_another_shape_are_another_network():
    assert InfluenceNetwork.complete(1, 2) != InfluenceNetwork.complete(2, 1)
    assert InfluenceNetwork([[1]]) != [[1]]


# ---- K_Σ --------------------------------------------------------------------------------------------------


@quietly
@given(factored_networks())
def test_a_factor_has_the_union_of_the_edges_it_merges(pair):
    net, sigma = pair
    dense = net.to_dense().astype(float)
    merged = np.array([dense[list(group)].max(axis=0) for group in sigma.groups])
    np.testing.assert_array_equal(net.factor(sigma).to_dense(), merged)
    assert net.factor(sigma).targets == net.targets
    assert len(set(net.factor(sigma).actions)) == len(sigma)


@quietly
@given(factored_networks(labelled=True))
def test_groups_may_be_given_by_label(pair):
    net, sigma = pair
    by_label = [[net.actions[i] for i in group] for group in sigma.groups]
    assert net.factor(by_label) == net.factor(sigma)


@quietly
@given(networks(labelled=True))
def test_the_finest_factorisation_changes_nothing_and_the_coarsest_leaves_one_row(net):
    n = net.shape[0]
    assert net.factor(Factorisation([[i] for i in range(n)], n)) == net
    assert net.factor([net.actions]).shape == (1, net.shape[1])


def test_factors_are_called_by_the_actions_they_merge():
    net = InfluenceNetwork(np.eye(3), actions=["buy", "sell", "hold"])
    assert net.factor([["buy", "hold"], ["sell"]]).actions == ("buy+hold", "sell")


def test_factors_of_one_action_each_keep_the_names_in_the_order_of_the_groups():
    factored = InfluenceNetwork([[1, 1], [0, 1]]).factor(Factorisation([[1], [0]], 2))
    assert factored.actions == ("a2", "a1")
    assert factored == InfluenceNetwork([[0, 1], [1, 1]], actions=["a2", "a1"])


def test_a_factorisation_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="factorisation: got 1 action, want 2"):
        InfluenceNetwork.complete(2, 1).factor(Factorisation([[0]], 1))


# ---- twins ------------------------------------------------------------------------------------------------


def test_twins_are_named():
    assert gallery.three_actions().twins() == (("a1", "a2"),)
    assert gallery.fork_collider().twins() == ()
    assert InfluenceNetwork([[0.5], [1], [0.5]]).twins() == (("a1", "a3"),)


# ---- equivariance -----------------------------------------------------------------------------------------


@quietly
@given(matrices(), st.randoms())
def test_permuted_actions_and_targets_permute_every_answer(matrix, random):
    net = InfluenceNetwork(matrix)
    n, m = net.shape
    rows, columns = random.sample(range(n), n), random.sample(range(m), m)
    moved = InfluenceNetwork(matrix[rows][:, columns])
    np.testing.assert_array_equal(moved.coparent_condition(), net.coparent_condition()[rows])
    groups = {frozenset(rows[i] for i in group) for group in moved.minimum_factorisation().groups}
    assert groups == {frozenset(group) for group in net.minimum_factorisation().groups}


# ---- new networks from old --------------------------------------------------------------------------------


def test_select_keeps_the_order_given():
    net = InfluenceNetwork([[1, 0.5, 0], [0, 1, 0.25]], targets=["p", "q", "r"])
    part = net.select(actions=["a2", "a1"], targets=["q", "p"])
    assert (part.actions, part.targets) == (("a2", "a1"), ("q", "p"))
    np.testing.assert_array_equal(part.to_dense(), [[1, 0], [0.5, 1]])
    assert net.select() == net


@quietly
@given(networks(), st.data())
def test_operations_leave_the_network_as_it_was(net, data):
    before = net.matrix.copy()
    _ = net | net, net.relabel(), net.components(), net.coparent_condition(), net.partition_maps, net.form
    net.factor(net.minimum_factorisation())
    net.select(actions=data.draw(st.permutations(net.actions)))
    assert isinstance(net.matrix, sparse.csr_array)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(net.matrix, name), getattr(before, name))


# ---- unions and intersections --------------------------------------------------------------------------------


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


def test_a_matrix_becomes_a_network():
    net = fx.InfluenceNetwork([[1, 0.5], [0, 1]])
    for matrix in (net.to_dense(), net.to_dense().tolist(), net.matrix, jnp.asarray(net.to_dense())):
        assert as_network(matrix, "network") == net


@pytest.mark.slow
def test_every_argument_that_is_a_network_may_be_a_matrix():
    eye = fx.InfluenceNetwork.identity(2)
    matrix = np.eye(2)
    assert fx.NetworkSchedule(matrix, np.ones((2, 2)), steps=3).static == eye
    assert fx.LaggedNetwork({1: matrix}).returns_network == eye
    assert fx.LaggedNetwork.over(matrix, []).returns_network == eye
    assert fx.StateNetwork(lambda obs, info: obs, matrix).support == eye
    assert fx.AdaptiveNetwork(matrix).initial == eye
    assert fx.close_over(matrix, []) == eye
    assert measure_lags(chain(2), np.ones((2, 2)), horizon=4, trials=2).shape == (2, 2)
    assert fx.discover(chain(2), method="interventional", horizon=4, trials=2, start=np.ones((2, 2))).found().all()
    fx.check_problem(chain(2), matrix)
    with pytest.raises(fx.rollouts.ProblemError, match="network: has 3 rows, but the action space has 2 components"):
        fx.check_problem(chain(2), np.ones((3, 2)))


def test_anything_else_is_refused_by_the_name_of_the_argument():
    with pytest.raises(TypeError, match=r"end: got dict, want an InfluenceNetwork; an array, nested lists"):
        as_network({}, "end")
    with pytest.raises(ValueError, match=r"end: holds the weight 2; want booleans or weights in \[0, 1\]"):
        as_network([[2.0]], "end")
    schedule = fx.NetworkSchedule(fx.InfluenceNetwork.identity(2), fx.InfluenceNetwork.complete(2, 2), steps=1)
    with pytest.raises(TypeError, match=r"net: got NetworkSchedule, want an InfluenceNetwork; use \.at\(step\)$"):
        as_network(schedule, "net", "use .at(step)")
