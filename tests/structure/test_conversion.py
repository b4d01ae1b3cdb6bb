import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from strategies import networks, quietly

from factorax import InfluenceNetwork
from factorax.structure import PartitionMap

HARD = InfluenceNetwork([[1, 0, 1], [0, 1, 1]], ["x", "y"], ["p", "q", "r"])
SOFT = InfluenceNetwork([[1, 0, 0.25], [0, 0.5, 1]], ["x", "y"], ["p", "q", "r"])


# ---- agreement and round trips ----------------------------------------------------------------------------


def test_all_constructors_agree_on_a_boolean_network():
    edges = [("x", "p"), ("x", "r"), ("y", "q"), ("y", "r")]
    graph = nx.Graph()
    graph.add_nodes_from("xy", bipartite=0)
    graph.add_nodes_from("pqr", bipartite=1)
    graph.add_edges_from(edges)
    directed = nx.DiGraph()
    directed.add_nodes_from(graph.nodes(data=True))
    directed.add_edges_from(edges)
    same = [
        InfluenceNetwork.from_edges(edges, targets=["p", "q", "r"]),
        InfluenceNetwork.from_edges((*edge, 1) for edge in [edges[0], edges[2], edges[3], edges[1]]),
        InfluenceNetwork.from_edges([*edges, edges[0]], ["x", "y"], ["p", "q", "r"]),
        InfluenceNetwork.from_partition_maps({"p": ["x"], "q": ["y"], "r": ["y", "x"]}),
        InfluenceNetwork.from_partition_maps(
            {"p": PartitionMap([0], 2), "q": ["y"], "r": PartitionMap([1, 0], 2)}, actions=["x", "y"]
        ),
        InfluenceNetwork.from_networkx(graph),
        InfluenceNetwork.from_networkx(directed),
        InfluenceNetwork.from_networkx(nx.MultiDiGraph(directed)),
    ]
    assert all(net == HARD for net in same)
    assert {hash(net) for net in same} == {hash(HARD)}


def test_all_constructors_agree_on_a_soft_network():
    graph = nx.Graph()
    graph.add_nodes_from("xy", bipartite=0)
    graph.add_nodes_from("pqr", bipartite=1)
    graph.add_edge("p", "x")
    graph.add_weighted_edges_from([("r", "x", 0.25), ("y", "q", 0.5), ("r", "y", 1)])
    assert InfluenceNetwork.from_networkx(graph) == SOFT
    edges = [("x", "p"), ("y", "q", 0.5), ("x", "r", 0.25), ("y", "r", 1.0)]
    assert InfluenceNetwork.from_edges(edges) == SOFT


@quietly
@given(networks())
def test_a_network_is_its_edges(net):
    again = InfluenceNetwork.from_edges(net.edges(), net.actions, net.targets)
    assert again == net
    assert hash(again) == hash(net)


@quietly
@given(networks())
def test_a_network_is_its_networkx_graph(net):
    assert InfluenceNetwork.from_networkx(net.to_networkx()) == net


@quietly
@given(networks())
def test_an_undirected_graph_is_the_same_network_whichever_side_comes_first(net):
    graph = nx.Graph()
    graph.add_nodes_from(net.targets, bipartite=1)
    graph.add_nodes_from(net.actions, bipartite=0)
    graph.add_edges_from(net.to_networkx().edges(data=True))
    assert InfluenceNetwork.from_networkx(graph) == net


@quietly
@given(networks(soft=False))
def test_a_boolean_network_is_its_partition_maps(net):
    assert InfluenceNetwork.from_partition_maps(net.partition_maps, net.actions) == net


@given(networks())
def test_partition_maps_are_the_columns(net):
    dense = net.to_dense()
    assert list(net.partition_maps) == list(net.targets)
    for j, sigma in enumerate(net.partition_maps.values()):
        assert sigma == PartitionMap(np.flatnonzero(dense[:, j]), net.shape[0])


def test_the_graph_follows_the_bipartite_convention_of_networkx():
    graph = SOFT.to_networkx()
    assert graph.is_directed()
    assert nx.bipartite.is_bipartite(graph)
    assert {node for node, side in graph.nodes(data="bipartite") if side == 0} == {"x", "y"}
    biadjacency = nx.bipartite.biadjacency_matrix(graph, SOFT.actions, SOFT.targets)
    np.testing.assert_array_equal(biadjacency.toarray(), SOFT.to_dense())


def test_edges_carry_a_weight_only_in_a_soft_network():
    assert list(HARD.edges()) == [("x", "p"), ("x", "r"), ("y", "q"), ("y", "r")]
    assert list(SOFT.edges()) == [("x", "p", 1.0), ("x", "r", 0.25), ("y", "q", 0.5), ("y", "r", 1.0)]


def test_labels_are_collected_in_order_of_appearance():
    net = InfluenceNetwork.from_edges([("b", "q"), ("a", "p"), ("b", "p")])
    assert (net.actions, net.targets) == (("b", "a"), ("q", "p"))


def test_labels_that_are_no_strings_are_found_again():
    graph = nx.DiGraph()
    graph.add_nodes_from([1, 2], bipartite=0)
    graph.add_nodes_from([(0, "p")], bipartite=1)
    graph.add_edges_from([(1, (0, "p")), (2, (0, "p"))])
    assert InfluenceNetwork.from_networkx(graph) == InfluenceNetwork([[1], [1]], [1, 2], [(0, "p")])
    assert InfluenceNetwork.from_edges([(1, 7), ("2", 7)], [1, 2]) == InfluenceNetwork([[1], [1]], [1, 2], [7])


def test_partition_maps_without_action_labels_get_the_default_ones():
    net = InfluenceNetwork.from_partition_maps({"p": PartitionMap([1, 2], 3), "q": PartitionMap([0], 3)})
    assert net == InfluenceNetwork([[0, 1], [1, 0], [1, 0]], targets=["p", "q"])


def test_an_edge_of_weight_nought_is_no_edge_but_names_its_ends():
    net = InfluenceNetwork.from_edges([("x", "p", 0), ("x", "q"), ("y", "p")])
    assert net.n_edges == 2
    assert net.actions == ("x", "y")


# ---- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edges", "options", "argument"),
    [
        ([("x",)], {}, "edges"),
        ([("x", "p", 1, 2)], {}, "edges"),
        (["xp"], {}, "edges"),
        ([("x", "p"), ("z", "p")], {"actions": ["x"]}, r"edges \(actions\): unknown label 'z'"),
        ([("x", "p"), ("x", "z")], {"targets": ["p"]}, r"edges \(targets\): unknown label 'z'"),
        ([("x", "p", 0.5), ("x", "p", 0.25)], {}, "edges: 'x' → 'p'"),
        *(([("x", "p", weight)], {}, "edges: 'x' → 'p'") for weight in (2, -0.5, np.nan, "x", None, 10**400)),
        ([("x", "p")], {"actions": ["x", "x"]}, "actions: got 'x' more than once"),
        ([], {}, "edges"),
    ],
)
def test_invalid_edges_are_named(edges, options, argument):
    with pytest.raises(ValueError, match=argument):
        InfluenceNetwork.from_edges(edges, **options)


@pytest.mark.parametrize(
    ("maps", "options", "argument"),
    [
        ({"p": ["z"]}, {"actions": ["x"]}, "unknown label 'z'"),
        ({"p": PartitionMap([0], 2), "q": PartitionMap([0], 3)}, {}, "maps"),
        ({"p": PartitionMap([0], 2)}, {"actions": ["x"]}, "actions"),
        ({1: ["x"], "1": ["x"]}, {}, "targets"),
        ({}, {"actions": ["x"]}, "maps"),
    ],
)
def test_invalid_partition_maps_are_named(maps, options, argument):
    with pytest.raises(ValueError, match=argument):
        InfluenceNetwork.from_partition_maps(maps, **options)


def graph_with(*edges, kind=nx.DiGraph, x=0, y=0, p=1):
    graph = kind()
    for node, side in {"x": x, "y": y, "p": p}.items():
        graph.add_node(node, **({} if side is None else {"bipartite": side}))
    graph.add_edges_from(edges)
    return graph


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (graph_with(("x", "p"), y=None), "graph: 'y' has no attribute bipartite"),
        (graph_with(("x", "p"), y=2), "graph: 'y' has no attribute bipartite"),
        (graph_with(("p", "x")), "graph: got the edge 'p' → 'x'"),
        (graph_with(("x", "y"), kind=nx.Graph), "graph: got the edge 'x' → 'y'"),
        (graph_with(("p", "p"), kind=nx.Graph), "graph: got the edge 'p' → 'p'"),
        (graph_with(("x", "p", {"weight": np.nan})), "edges: 'x' → 'p'"),
        (nx.DiGraph(), "graph"),
    ],
)
def test_invalid_graphs_are_named(graph, message):
    with pytest.raises(ValueError, match=message):
        InfluenceNetwork.from_networkx(graph)


def test_a_name_on_both_sides_has_no_graph():
    net = InfluenceNetwork([[1, 1]], actions=["x"], targets=["x", "p"])
    with pytest.raises(ValueError, match=r"'x' names both an action and a target; .* relabel\(\)"):
        net.to_networkx()
