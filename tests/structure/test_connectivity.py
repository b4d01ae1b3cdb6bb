"""Components, actions and targets without edges, and the co-parent condition."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from strategies import networks, quietly

from factorax import InfluenceNetwork
from factorax.structure import StructureWarning, gallery
from factorax.structure.patterns import banded, block

WITHOUT_TARGETS = r"^action 'fan', 'lamp' influences no target, so its gradient is zero$"


WITHOUT_ACTIONS = r"^target 'noise', 'rain' is influenced by no action, so it has no effect on learning$"


def test_actions_without_targets_are_warned_of_by_name():
    with pytest.warns(StructureWarning, match=WITHOUT_TARGETS) as record:
        InfluenceNetwork([[0], [1], [0]], actions=["fan", "heat", "lamp"])
    assert len(record) == 1
    assert record[0].filename == __file__


def test_targets_without_actions_are_warned_of_by_name():
    with pytest.warns(StructureWarning, match=WITHOUT_ACTIONS) as record:
        InfluenceNetwork.from_edges([("heat", "bill")], targets=["noise", "bill", "rain"])
    assert len(record) == 1


def test_selection_and_intersection_warn_of_what_they_cut_off():
    net = InfluenceNetwork([[1, 0], [1, 1]])
    with pytest.warns(StructureWarning, match="target 'psi2'"):
        net.select(actions=["a1"])
    with pytest.warns(StructureWarning, match="action 'a1'"):
        net & InfluenceNetwork([[0, 1], [1, 1]])


def test_blocks_come_apart_into_components():
    parts = block([(2, 1), (1, 3)]).components()
    assert [part.shape for part in parts] == [(2, 1), (1, 3)]
    assert [part.actions for part in parts] == [("a1", "a2"), ("a3",)]
    assert all(part.density == 1 for part in parts)


@pytest.mark.slow
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
