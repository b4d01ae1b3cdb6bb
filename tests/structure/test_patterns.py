import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg

from factorax import InfluenceNetwork
from factorax.structure import StructureWarning
from factorax.structure.patterns import banded, block, k_hop, spatial_discount


@st.composite
def graphs(draw, max_size=7):
    n, directed = draw(st.integers(1, max_size)), draw(st.booleans())
    pairs = [(u, v) for u in range(n) for v in range(n) if u != v]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=2 * n)) if pairs else []
    graph = nx.DiGraph() if directed else nx.Graph()
    graph.add_nodes_from(draw(st.permutations(range(n))))
    graph.add_edges_from(edges)
    return graph


def shortest_paths(graph, weight=None):
    """Distances from every node (rows) to every node (columns), infinite where there is no way."""
    lengths = dict(nx.all_pairs_dijkstra_path_length(graph, weight=weight))
    return np.array([[lengths[u].get(v, np.inf) for v in graph] for u in graph])


# ---- blocks and bands -------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=4))
def test_blocks_stand_on_the_diagonal(sizes):
    expected = linalg.block_diag(*[np.ones(size) for size in sizes])
    net = block(sizes)
    np.testing.assert_array_equal(net.to_dense(), expected)
    assert [part.shape for part in net.components()] == sizes
    assert net.coparent_condition().all()
    assert len(net.minimum_factorisation()) == len(sizes)


def test_blocks_of_size_one_are_the_identity_and_one_block_is_complete():
    assert block([(1, 1)] * 3) == InfluenceNetwork.identity(3)
    assert block([(3, 2)]) == InfluenceNetwork.complete(3, 2)


@given(st.integers(1, 9), st.integers(0, 12))
def test_a_band_joins_neighbours_up_to_its_width(n, width):
    i = np.arange(n)
    np.testing.assert_array_equal(banded(n, width).to_dense(), abs(i[:, None] - i) <= width)


def test_a_band_is_the_identity_or_complete_at_its_ends():
    assert banded(5, 0) == InfluenceNetwork.identity(5)
    assert banded(5, 4) == banded(5, 10**9) == InfluenceNetwork.complete(5, 5)


# ---- graphs -----------------------------------------------------------------------------------------------


@given(graphs(), st.integers(0, 8))
def test_k_hops_reach_what_is_at_most_k_edges_away(graph, k):
    net = k_hop(graph, k)
    assert net.actions == net.targets == tuple(map(str, graph))
    np.testing.assert_array_equal(net.to_dense(), shortest_paths(graph) <= k)


def test_no_hop_is_the_identity_and_many_hops_are_the_components():
    graph = nx.disjoint_union(nx.path_graph(3), nx.path_graph(2))
    assert k_hop(graph, 0) == InfluenceNetwork.identity(5).relabel(range(5), range(5))
    assert k_hop(graph, 99) == block([(3, 3), (2, 2)]).relabel(range(5), range(5))


def test_influence_travels_along_directed_edges_only():
    net = k_hop(nx.DiGraph([("upstream", "downstream")]), 1)
    np.testing.assert_array_equal(net.to_dense(), [[1, 1], [0, 1]])


def test_edge_weights_do_not_count_as_hops():
    graph = nx.Graph()
    graph.add_edge(0, 1, weight=0)
    graph.add_edge(1, 2, weight=50)
    np.testing.assert_array_equal(k_hop(graph, 1).to_dense(), [[1, 1, 0], [1, 1, 1], [0, 1, 1]])


@given(graphs(), st.floats(0.01, 1), st.none() | st.integers(0, 4))
def test_spatial_influence_is_alpha_to_the_distance(graph, alpha, radius):
    distance = shortest_paths(graph)
    near = np.isfinite(distance) & (distance <= (np.inf if radius is None else radius))
    expected = np.where(near, alpha ** np.where(near, distance, 0), 0)
    for given_as in (graph, distance):
        np.testing.assert_allclose(spatial_discount(given_as, alpha, radius=radius).to_dense(), expected, rtol=1e-12)


def test_without_discount_a_radius_is_a_number_of_hops():
    graph = nx.grid_2d_graph(3, 3)
    for k in range(4):
        assert spatial_discount(graph, 1, radius=k) == k_hop(graph, k)


def test_lengths_of_edges_are_read_from_the_attribute_named():
    graph = nx.Graph()
    graph.add_edge("x", "y", km=2.0)
    graph.add_edge("y", "z", km=0.5)
    graph.add_edge("x", "z", km=9.0)
    net = spatial_discount(graph, 0.25, weight="km")
    assert net.actions == ("x", "y", "z")
    np.testing.assert_allclose(net.to_dense(), 0.25 ** shortest_paths(graph, "km"))
    np.testing.assert_array_equal(
        spatial_discount(graph, 0.5).to_dense(), [[1, 0.5, 0.5], [0.5, 1, 0.5], [0.5, 0.5, 1]]
    )


def test_distances_need_not_be_square():
    net = spatial_discount([[0, 1, np.inf], [1, 0, 2]], 0.5)
    np.testing.assert_array_equal(net.to_dense(), [[1, 0.5, 0], [0.5, 1, 0.25]])
    assert net.targets == ("psi1", "psi2", "psi3")


def test_what_cannot_be_reached_is_not_influenced_even_without_discount():
    net = spatial_discount([[0, np.inf], [7, 0]], 1)
    np.testing.assert_array_equal(net.to_dense(), [[1, 0], [1, 1]])


def test_an_infinite_radius_does_not_reach_what_cannot_be_reached():
    with pytest.warns(StructureWarning, match=r"target 'psi2' is influenced by no action"):
        net = spatial_discount([[0, np.inf]], 1, radius=np.inf)
    np.testing.assert_array_equal(net.to_dense(), [[1, 0]])


@pytest.mark.parametrize("kind", [nx.MultiGraph, nx.MultiDiGraph])
def test_of_parallel_edges_the_shortest_counts(kind):
    graph = kind()
    graph.add_edges_from([("x", "y", {"km": km}) for km in (3, 1, 2)])
    back = 0.5 if kind is nx.MultiGraph else 0
    np.testing.assert_array_equal(spatial_discount(graph, 0.5, weight="km").to_dense(), [[1, 0.5], [back, 1]])
    np.testing.assert_array_equal(spatial_discount(graph, 0.5).to_dense(), [[1, 0.5], [back, 1]])
    np.testing.assert_array_equal(k_hop(graph, 1).to_dense(), [[1, 1], [back > 0, 1]])


# ---- bad input --------------------------------------------------------------------------------------------


def with_negative_length(kind):
    graph = kind()
    graph.add_edges_from([("x", "y", {"km": 2}), ("x", "y", {"km": -1})])
    return spatial_discount(graph, 0.5, weight="km")


@pytest.mark.parametrize(
    ("make", "error", "argument"),
    [
        (lambda: block([]), ValueError, "sizes"),
        (lambda: block([(1, 0)]), ValueError, "sizes"),
        (lambda: block([(1, 1.5)]), TypeError, "sizes"),
        (lambda: banded(0, 1), ValueError, "n"),
        (lambda: banded(3, -1), ValueError, "width"),
        (lambda: banded(3, True), TypeError, "width"),
        (lambda: k_hop(nx.path_graph(2), -1), ValueError, "k"),
        (lambda: k_hop(nx.Graph(), 1), ValueError, "graph"),
        (lambda: k_hop(nx.Graph([(1, "1")]), 1), ValueError, "actions"),
        (lambda: spatial_discount(nx.Graph(), 0.5), ValueError, "distances"),
        *((lambda alpha=alpha: spatial_discount([[0]], alpha), ValueError, "alpha") for alpha in (0, 1.1, np.nan)),
        (lambda: spatial_discount([0, 1], 0.5), ValueError, "distances"),
        (lambda: spatial_discount([[np.nan]], 0.5), ValueError, "distances"),
        (lambda: spatial_discount([[-1]], 0.5), ValueError, "distances"),
        (lambda: with_negative_length(nx.Graph), ValueError, "distances"),
        (lambda: with_negative_length(nx.MultiDiGraph), ValueError, "distances"),
        (lambda: spatial_discount([[0]], 0.5, radius=-1), ValueError, "radius"),
        (lambda: spatial_discount(nx.path_graph(2), 0.5, radius=-1), ValueError, "radius"),
    ],
)
def test_invalid_arguments_are_named(make, error, argument):
    with pytest.raises(error, match=rf"^{argument}: got"):
        make()
