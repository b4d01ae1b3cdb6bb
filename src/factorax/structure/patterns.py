"""Common patterns of K: blocks, bands, neighbourhoods on graphs, and influence that decreases with distance.

See also `InfluenceNetwork.complete` and `InfluenceNetwork.identity`.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from scipy import sparse

from .._checks import NotNegative, Range, checked, listed, real_array
from .._text import shown
from .factorisation import as_index
from .network import InfluenceNetwork

if TYPE_CHECKING:
    import networkx as nx


def block(sizes: Iterable[tuple[int, int]]) -> InfluenceNetwork:
    """Return independent blocks, each of them complete: one ``(n_actions, n_targets)`` pair per block.

    >>> block([(2, 1), (1, 2)]).to_dense().astype(int)
    array([[1, 0, 0],
           [1, 0, 0],
           [0, 1, 1]])
    """
    want = "a list of (n_actions, n_targets) pairs of at least 1 each"
    rows = [listed("sizes", pair, want) for pair in listed("sizes", sizes, want)]
    pairs = [tuple(as_index(size, "sizes") for size in pair) for pair in rows]
    if not pairs or any(len(pair) != 2 or min(pair) < 1 for pair in pairs):
        raise ValueError(f"sizes: got {shown(pairs)}, want {want}")
    blocks = [sparse.coo_array(np.ones(pair, dtype=bool)) for pair in pairs]
    return InfluenceNetwork(sparse.block_diag(blocks, format="csr"))


def banded(n: int, width: int) -> InfluenceNetwork:
    """Return a banded network: action i influences the targets j with |i − j| ≤ width, its neighbours on a line.

    >>> banded(4, 1).to_dense().astype(int)
    array([[1, 1, 0, 0],
           [1, 1, 1, 0],
           [0, 1, 1, 1],
           [0, 0, 1, 1]])
    """
    n, width = as_index(n, "n", least=1), as_index(width, "width", least=0)
    offsets = range(-min(width, n - 1), min(width, n - 1) + 1)
    return InfluenceNetwork(sparse.diags_array([1.0] * len(offsets), offsets=offsets, shape=(n, n)))


def k_hop(graph: "nx.Graph", k: int) -> InfluenceNetwork:
    """Return the network of a graph in which every node has an action and a target, with influence up to k edges away.

    This is the truncation of Qu, Wierman and Li (2020), with a bias that decreases exponentially in k. In a directed
    graph, edges point in the direction of influence. Actions and targets are both labelled by the nodes.

    >>> import networkx as nx
    >>> k_hop(nx.path_graph(4), 1) == banded(4, 1).relabel(range(4), range(4))
    True
    """
    k = as_index(k, "k", least=0)
    nodes, adjacency = _adjacency(graph, "graph")
    step = (adjacency.astype(bool) + sparse.eye_array(len(nodes), dtype=bool)).tocsr()
    reach = sparse.eye_array(len(nodes), dtype=bool, format="csr")
    for _ in range(k):
        wider = reach @ step
        # Nothing new is within reach; k may be larger than any distance.
        if wider.nnz == reach.nnz:
            break
        reach = wider
    return InfluenceNetwork(reach, nodes, nodes)


def spatial_discount(
    distances: Any, alpha: float, *, radius: float | None = None, weight: str | None = None
) -> InfluenceNetwork:
    """Return a soft network in which influence decreases with distance: K[i, j] = α^d(i, j), and 0 beyond `radius`.

    **Arguments**

    - `distances`: a matrix of distances from actions to targets, shape ``(n_actions, n_targets)`` (infinite if
      unreachable), or a networkx graph, in which shortest paths are computed.
    - `alpha`: the discount per unit of distance, in (0, 1].
    - `radius`: pairs further apart than this are not connected.
    - `weight`: the edge attribute of the graph that holds lengths; by default every edge has length 1.

    >>> import networkx as nx
    >>> spatial_discount(nx.path_graph(3), 0.5).to_dense()
    array([[1.  , 0.5 , 0.25],
           [0.5 , 1.  , 0.5 ],
           [0.25, 0.5 , 1.  ]])
    """
    checked("alpha", alpha, Annotated[float, Range(0, 1, open=True)])
    if radius is not None and radius != np.inf:
        checked("radius", radius, NotNegative)
    if weight is not None and not (isinstance(weight, str) and hasattr(distances, "nodes")):
        raise TypeError(
            f"weight: got {shown(weight)}, want the name of an edge attribute, with a networkx graph as distances"
        )
    nodes = None
    if hasattr(distances, "nodes"):
        from scipy.sparse.csgraph import dijkstra  # as in `matrices`

        nodes, adjacency = _adjacency(distances, "distances", weight)
        limit = np.inf if radius is None else radius
        distances = dijkstra(adjacency, directed=True, unweighted=weight is None, limit=limit)
    d = real_array("distances", distances, finite=False).astype(np.float64)
    if d.ndim != 2 or np.isnan(d).any() or (d < 0).any():
        raise ValueError(f"distances: got {shown(distances)}, want a matrix of numbers ≥ 0 without NaN")
    # 1 ** inf is 1: unreachable pairs have no edge at any alpha.
    near = np.isfinite(d) if radius is None else np.isfinite(d) & (d <= radius)
    return InfluenceNetwork(np.where(near, alpha ** np.where(near, d, 0), 0), nodes, nodes)


def _adjacency(graph: "nx.Graph", argument: str, weight: str | None = None) -> tuple[list[Any], sparse.csr_array]:
    import networkx as nx

    if not hasattr(graph, "number_of_nodes"):
        raise TypeError(f"{argument}: got {shown(graph)}, want a networkx graph with at least one node")
    if graph.number_of_nodes() == 0:
        raise ValueError(f"{argument}: got {shown(graph)}, a graph without nodes, want at least one")
    options: dict[str, Any] = {"weight": weight, "dtype": np.float64, "format": "csr"}
    try:
        if graph.is_multigraph():  # of parallel edges keep the shortest, which is added last
            lengths = sorted(graph.edges(data=weight or "weight", default=1), key=lambda edge: -edge[2])
            nodes, graph = graph.nodes, nx.DiGraph() if graph.is_directed() else nx.Graph()
            graph.add_nodes_from(nodes)
            graph.add_weighted_edges_from(lengths, weight=weight or "weight")
        adjacency = nx.to_scipy_sparse_array(graph, **options)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{argument}: got an edge with a {weight} that is not a number ({error}), want lengths ≥ 0"
        ) from error
    if not (adjacency.data >= 0).all():
        raise ValueError(f"distances: got an edge of length {adjacency.data.min():g}, want lengths ≥ 0")
    return list(graph.nodes), adjacency
