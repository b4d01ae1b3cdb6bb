from itertools import product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from strategies import factored_networks, matrices, networks, quietly

from factorax import Factorisation, InfluenceNetwork, PartitionMap, StructureWarning
from factorax.structure import gallery
from factorax.structure.networks import banded, block

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


def test_repr_says_the_size_and_softness():
    assert repr(InfluenceNetwork([[1, 1], [0, 1]])) == "InfluenceNetwork(2 actions → 2 targets, 3 edges, density 0.75)"
    assert repr(InfluenceNetwork([[0.5]])) == "InfluenceNetwork(1 actions → 1 targets, 1 soft edges, density 1)"


def test_a_huge_complete_network_costs_no_memory():
    n = 10**6
    net = InfluenceNetwork.complete(n, n)
    assert repr(net) == "InfluenceNetwork(1000000 actions → 1000000 targets, 1000000000000 edges, density 1)"
    assert net.n_edges == n * n
    assert not net.is_soft
    assert net == InfluenceNetwork.complete(n, n)
    assert net != InfluenceNetwork.complete(n, n - 1)
    assert (net.actions[-1], net.targets[-1]) == ("a1000000", "psi1000000")
    with pytest.raises(MemoryError, match=r"1000000 × 1000000 has 1000000000000 entries; use credit\(\)"):
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
        (0, 1, ValueError, r"n, m: got \(0, 1\), want at least one action and one target"),
        (1, -1, ValueError, r"n, m: got \(1, -1\), want at least"),
        (2.0, 1, TypeError, r"n: got 2.0, want whole numbers"),
        (1, True, TypeError, r"m: got True, want whole numbers"),
    ],
)
def test_bad_sizes_of_a_complete_network_are_named(n, m, error, message):
    with pytest.raises(error, match=message):
        InfluenceNetwork.complete(n, m)


@pytest.mark.parametrize(
    ("n", "error", "message"),
    [
        (0, ValueError, r"n: got 0, want at least 1"),
        (-1, ValueError, r"n: got -1, want at least 1"),
        (2.5, TypeError, r"n: got 2.5, want whole numbers"),
        (True, TypeError, r"n: got True, want whole numbers"),
    ],
)
def test_bad_sizes_of_an_identity_are_named(n, error, message):
    with pytest.raises(error, match=message):
        InfluenceNetwork.identity(n)


def test_shape_and_partition_maps_cannot_be_written_to():
    net = InfluenceNetwork.identity(2)
    with pytest.raises(AttributeError, match="shape"):
        net.shape = (3, 3)
    with pytest.raises(TypeError, match="item assignment"):
        net.partition_maps["psi1"] = PartitionMap([1], 2)
    assert net.shape == (2, 2)
    assert net.partition_maps["psi1"] == PartitionMap([0], 2)


# ---- warnings ---------------------------------------------------------------------------------------------


WITHOUT_TARGETS = r"^no target is influenced by action 'fan', 'lamp': no gradient there$"
WITHOUT_ACTIONS = r"^no action influences target 'noise', 'rain': no part in learning$"


def test_actions_without_targets_are_warned_of_by_name():
    with pytest.warns(StructureWarning, match=WITHOUT_TARGETS) as record:
        InfluenceNetwork([[0], [1], [0]], actions=["fan", "heat", "lamp"])
    assert len(record) == 1
    assert record[0].filename == __file__


def test_targets_without_actions_are_warned_of_by_name():
    with pytest.warns(StructureWarning, match=WITHOUT_ACTIONS) as record:
        InfluenceNetwork.from_edges([("heat", "bill")], targets=["noise", "bill", "rain"])
    assert len(record) == 1


def test_a_network_without_edges_warns_of_both_sides():
    with pytest.warns(StructureWarning) as record:
        InfluenceNetwork(np.zeros((9, 2)))
    assert [str(w.message) for w in record] == [
        "no target is influenced by action 'a1', 'a2', 'a3', 'a4', 'a5' and 4 more: no gradient there",
        "no action influences target 'psi1', 'psi2': no part in learning",
    ]


def test_selection_and_intersection_warn_of_what_they_cut_off():
    net = InfluenceNetwork([[1, 0], [1, 1]])
    with pytest.warns(StructureWarning, match="target 'psi2'"):
        net.select(actions=["a1"])
    with pytest.warns(StructureWarning, match="action 'a1'"):
        net & InfluenceNetwork([[0, 1], [1, 1]])


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


def test_factors_whose_names_clash_get_names_of_their_own():
    net = InfluenceNetwork(np.ones((4, 1)), actions=["a", "b+c", "a+b", "c"])
    assert len(set(net.factor([["a", "b+c"], ["a+b", "c"]]).actions)) == 2
    twins = InfluenceNetwork([[1, 0], [1, 0], [0, 1]], actions=["a", "b", "a+b"])
    assert len(set(twins.factor(twins.minimum_factorisation()).actions)) == 2


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (Factorisation([[0]], 1), r"factorisation: groups 1 actions, the network has 2"),
        ([["a1", "a2", "z"]], r"groups: unknown label 'z'; known: 'a1', 'a2'"),
        ([["a1", "a2"], ["a2"]], r"groups overlap: action 1 is in two groups"),
        ([["a2"]], r"groups miss action 'a1'"),
        ([["a1", "a2"], []], r"groups: got an empty group"),
    ],
)
def test_a_factorisation_that_does_not_fit_is_refused(groups, message):
    with pytest.raises(ValueError, match=message):
        InfluenceNetwork.complete(2, 1).factor(groups)


# ---- components and twins ---------------------------------------------------------------------------------


def test_blocks_come_apart_into_components():
    parts = block([(2, 1), (1, 3)]).components()
    assert [part.shape for part in parts] == [(2, 1), (1, 3)]
    assert [part.actions for part in parts] == [("a1", "a2"), ("a3",)]
    assert all(part.density == 1 for part in parts)


def test_many_blocks_come_apart_too():
    parts = block([(1, 1), (2, 1)] * 10_000).components()
    assert len(parts) == 20_000
    assert [parts[k].actions for k in (0, 1, 2, -1)] == [("a1",), ("a2", "a3"), ("a4",), ("a29999", "a30000")]
    assert [parts[k].targets for k in (0, 1, 2, -1)] == [("psi1",), ("psi2",), ("psi3",), ("psi20000",)]


@quietly
@given(networks())
def test_components_are_those_of_the_graph_and_lose_no_edge(net):
    parts = net.components()
    graph = net.to_networkx().to_undirected()
    graph.remove_nodes_from(list(nx.isolates(graph)))
    expected = {frozenset(c) for c in nx.connected_components(graph)}
    assert {frozenset(part.actions + part.targets) for part in parts} == expected
    assert sorted(edge for part in parts for edge in (e[:2] for e in part.edges())) == sorted(
        e[:2] for e in net.edges()
    )


def test_twins_are_named():
    assert gallery.three_actions().twins() == (("a1", "a2"),)
    assert gallery.fork_collider().twins() == ()
    assert InfluenceNetwork([[0.5], [1], [0.5]]).twins() == (("a1", "a3"),)


# ---- co-parent condition ----------------------------------------------------------------------------------


def literal_coparent_condition(dense):
    """Every co-parent l of i, an action that shares a target with i, has N(l) ⊆ N(i); and no edge of i is soft."""
    targets = [set(np.flatnonzero(row)) for row in dense]
    return [
        all(other <= mine for other in targets if other & mine) and not ((row > 0) & (row < 1)).any()
        for mine, row in zip(targets, dense, strict=True)
    ]


@given(networks(max_size=5))
def test_coparent_condition_is_its_definition(net):
    np.testing.assert_array_equal(net.coparent_condition(), literal_coparent_condition(net.to_dense()))


@pytest.mark.parametrize(
    ("net", "expected"),
    [
        (InfluenceNetwork.identity(4), [True] * 4),
        (InfluenceNetwork.complete(2, 3), [True] * 2),
        (block([(2, 1), (1, 2), (2, 2)]), [True] * 5),
        (gallery.fork(), [True]),
        (gallery.collider(), [True, True]),
        (gallery.fork_collider(), [True, False]),
        (gallery.three_actions(), [False] * 3),
        (banded(3, 1), [False, True, False]),
        (banded(5, 1), [False] * 5),
        (gallery.search_bandit(4), [False] * 4),
        (gallery.search_bandit(4, 3), [False, False, False, True]),
        (gallery.search_bandit(4, 1), [True] * 4),
        (gallery.search_bandit(4, 0), [True] * 4),
        (InfluenceNetwork([[1, 0.5], [1, 1]]), [False, True]),
        (InfluenceNetwork([[0.5]]), [False]),
    ],
)
def test_coparent_condition_of_known_networks(net, expected):
    assert net.coparent_condition().tolist() == expected


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
    with pytest.raises(ValueError, match=r"union: got shape \(2, 3\), want \(2, 2\)"):
        net | InfluenceNetwork.complete(2, 3)
    with pytest.raises(
        ValueError, match=r"intersection: actions differ \('a2' against 'z'\); .*select\(\).*relabel\(\)"
    ):
        net & net.relabel(actions=["a1", "z"])
    with pytest.raises(ValueError, match=r"union: targets differ \('psi1' against 'psi2'\)"):
        net | net.relabel(targets=["psi2", "psi1"])
    with pytest.raises(TypeError, match=r"union: got ndarray, want an InfluenceNetwork"):
        net.union(np.ones((2, 2)))


def test_select_keeps_the_order_given():
    net = InfluenceNetwork([[1, 0.5, 0], [0, 1, 0.25]], targets=["p", "q", "r"])
    part = net.select(actions=["a2", "a1"], targets=["q", "p"])
    assert (part.actions, part.targets) == (("a2", "a1"), ("q", "p"))
    np.testing.assert_array_equal(part.to_dense(), [[1, 0], [0.5, 1]])
    assert net.select() == net


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"actions": ["z", "a1"]}, r"actions: unknown label 'z'; known: 'a1', 'a2'"),
        ({"targets": ["z"]}, r"targets: unknown label 'z'; known: 'psi1', 'psi2'"),
        ({"actions": ["a1", "a1"]}, r"actions: labels must be unique; repeated: 'a1'"),
        ({"targets": []}, r"got shape \(2, 0\), want at least one action and one target"),
    ],
)
def test_a_bad_selection_is_named(choice, message):
    with pytest.raises(ValueError, match=message):
        InfluenceNetwork.complete(2, 2).select(**choice)


def test_a_string_in_place_of_a_selection_is_refused():
    net = InfluenceNetwork(np.ones((2, 2)), ["x", "y"], ["p", "q"])
    with pytest.raises(TypeError, match=r"actions: got the string 'x', want a list of labels such as \['x'\]"):
        net.select(actions="x")
    with pytest.raises(TypeError, match=r"targets: got the string 'pq', want a list of labels such as \['pq'\]"):
        net.select(targets="pq")
    with pytest.raises(TypeError, match=r"groups: got the string 'xy', want a list of labels such as \['xy'\]"):
        net.factor(["xy"])


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
