"""Convert edge lists, partition maps and networkx graphs to labelled matrices, and back."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from .._checks import check_type, listed
from .._text import shown, some
from .labels import check_distinct, check_labels, default_labels, positions, refuse_string
from .partition import PartitionMap

if TYPE_CHECKING:
    import networkx as nx

LabelledMatrix = tuple[sparse.coo_array, tuple[str, ...], tuple[str, ...]]


def matrix_of_edges(
    edges: Iterable[Sequence[Any]], actions: Iterable[Hashable] | None, targets: Iterable[Hashable] | None
) -> LabelledMatrix:
    """Return the matrix, action labels and target labels of a list of edges."""
    if isinstance(edges, str):
        raise ValueError(f"edges: got {edges!r}, want (action, target) or (action, target, weight)")
    edges = listed("edges", edges, "a list of (action, target) or (action, target, weight)")
    tuples = [edge if isinstance(edge, str) or not np.iterable(edge) else tuple(edge) for edge in edges]
    odd = [edge for edge in tuples if not isinstance(edge, tuple) or len(edge) not in (2, 3)]
    if odd:
        raise ValueError(f"edges: got {shown(odd[0])}, want (action, target) or (action, target, weight)")
    if not tuples and (actions is None or targets is None):
        raise ValueError("edges: got an empty list, want at least one edge, or the labels of all actions and targets")
    ends = [(str(edge[0]), str(edge[1])) for edge in tuples]
    rows_of = dict.fromkeys(a for a, _ in ends) if actions is None else actions
    columns_of = dict.fromkeys(t for _, t in ends) if targets is None else targets
    action_names = check_labels(rows_of, None, "actions")
    target_names = check_labels(columns_of, None, "targets")
    rows = positions((a for a, _ in ends), action_names, "edges (actions)")
    columns = positions((t for _, t in ends), target_names, "edges (targets)")
    weight_of: dict[tuple[int, int], float] = {}
    for edge, cell in zip(tuples, zip(rows, columns, strict=True), strict=True):
        weight = _weight(edge) if len(edge) == 3 else 1.0
        if weight_of.setdefault(cell, weight) != weight:
            raise ValueError(f"edges: {edge[0]!r} → {edge[1]!r} is listed twice with different weights; want it once")
    cells = np.array(list(weight_of), dtype=np.int64).reshape(-1, 2)
    weights = np.array(list(weight_of.values()), dtype=np.float64)
    shape = (len(action_names), len(target_names))
    return sparse.coo_array((weights, (cells[:, 0], cells[:, 1])), shape), action_names, target_names


def _weight(edge: Sequence[Any]) -> float:
    try:
        weight = float(edge[2])
    except (TypeError, ValueError, OverflowError):
        weight = float("nan")
    if not 0 <= weight <= 1:
        raise ValueError(f"edges: {edge[0]!r} → {edge[1]!r} has the weight {edge[2]!r}, want a number in [0, 1]")
    return weight


def matrix_of_maps(
    maps: Mapping[Hashable, Iterable[Hashable] | PartitionMap], actions: Iterable[Hashable] | None
) -> LabelledMatrix:
    """Return the matrix, action labels and target labels of one partition map per target."""
    check_type("maps", maps, Mapping, "a dictionary from each target to its actions")
    if not maps:
        raise ValueError("maps: got {}, want at least one target and its actions")
    sizes = {sigma.size for sigma in maps.values() if isinstance(sigma, PartitionMap)}
    if len(sizes) > 1:
        raise ValueError(f"maps: got partition maps of different sizes {sorted(sizes)}; want maps of one action space")
    if sizes and actions is None:
        actions = default_labels("a", next(iter(sizes)))
    names = None if actions is None else check_labels(actions, next(iter(sizes), None), "actions")
    edges: list[tuple[Any, Any]] = []
    for target, sigma in maps.items():
        if isinstance(sigma, PartitionMap):
            assert names is not None
            edges += [(names[i], target) for i in sigma.indices]
        else:
            refuse_string(sigma, f"maps[{target!r}]")
            edges += [(action, target) for action in listed(f"maps[{target!r}]", sigma, "a list of actions")]
    return matrix_of_edges(edges, names, list(maps))


def matrix_of_graph(graph: "nx.Graph") -> LabelledMatrix:
    """Return the matrix, action labels and target labels of a bipartite networkx graph."""
    if not hasattr(graph, "nodes"):
        raise TypeError(f"graph: got {shown(graph)}, want a networkx graph with actions and targets")
    if not len(graph.nodes):
        raise ValueError(f"graph: got {shown(graph)} without nodes, want actions and targets")
    side = graph.nodes(data="bipartite")
    unmarked = [node for node, s in side if s not in (0, 1)]
    if unmarked:
        raise ValueError(
            f"graph: {some(list(map(str, unmarked)))} has no attribute bipartite, want 0 (action) or 1 (target); set "
            "it with graph.add_node(name, bipartite=0)"
        )
    edges = []
    for u, v, weight in graph.edges(data="weight", default=1.0):
        if not graph.is_directed() and side[u] == 1:
            u, v = v, u
        if side[u] != 0 or side[v] != 1:
            raise ValueError(
                f"graph: got the edge {u!r} → {v!r}, want edges from an action to a target; reverse or remove it"
            )
        edges.append((u, v, weight))
    return matrix_of_edges(edges, [a for a, s in side if s == 0], [t for t, s in side if s == 1])


def graph_of(actions: Sequence[str], targets: Sequence[str], edges: Iterable[Sequence[Any]]) -> "nx.DiGraph":
    """Return the bipartite networkx graph of edges ``(action, target)`` or ``(action, target, weight)``."""
    import networkx as nx

    check_distinct(actions, targets)
    graph = nx.DiGraph()
    graph.add_nodes_from(actions, bipartite=0)
    graph.add_nodes_from(targets, bipartite=1)
    for action, target, *weight in edges:
        graph.add_edge(action, target, **({"weight": weight[0]} if weight else {}))
    return graph
