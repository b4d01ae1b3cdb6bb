"""Influence networks: which action can change which target (Defs. 3.1 and 3.2 of the paper)."""

import copy
import hashlib
import os
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from .._checks import check_type, is_traced, listed
from .._text import counted, shown, some, warn
from .base_network import BaseNetwork
from .factorisation import Factorisation, PartitionMap, as_index, is_array
from .labels import check_distinct, check_labels, custom_labels, default_labels, join_labels, positions, sizes_label

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.axes import Axes

    from .forms import Form

HINT = "an array, nested lists or a scipy.sparse matrix also work"


class InfluenceNetwork(BaseNetwork):
    """A bipartite graph from actions to targets, stored as its influence matrix K.

    K has shape ``(n_actions, n_targets)``; K[i, j] = 1 iff action i influences target j. Weights between 0 and 1 make a
    *soft* network. Networks are immutable: every operation returns a new network and keeps the labels. They can be
    hashed and compared, so a network can be a static argument of ``jax.jit``.

    **Arguments**

    - `matrix`: two-dimensional, dense (NumPy array, nested lists) or ``scipy.sparse``.
    - `actions`, `targets`: unique labels of rows and columns; by default ``a1, a2, …`` and ``psi1, psi2, …``.

    >>> net = InfluenceNetwork([[1, 1], [0, 1]], actions=["heat", "vent"], targets=["bill", "comfort"])
    >>> net
    InfluenceNetwork(2 actions → 2 targets, 3 edges, density 0.75)
    >>> net.partition_maps["comfort"]
    PartitionMap([0, 1], 2)
    """

    def __init__(
        self, matrix: Any, actions: Iterable[Hashable] | None = None, targets: Iterable[Hashable] | None = None
    ):
        matrix = canonical(matrix)
        n, m = matrix.shape
        self._set(
            matrix,
            # None for default labels, which are created on request: a million of them take 64 MB.
            None if actions is None else check_labels(actions, n, "actions"),
            None if targets is None else check_labels(targets, m, "targets"),
        )
        self._warn_of_isolated()

    is_fixed = True
    _shape: tuple[int, int]
    _actions: tuple[str, ...] | None
    _targets: tuple[str, ...] | None

    factorisation: Factorisation | None = None
    """The actions that each row stands for if the network was created by `factor`, otherwise None."""
    made_complete: bool = False
    """Whether the network was created by `complete`, so that all edges are intended, as in a control experiment."""

    lacks_reactions: bool = False
    """Whether this network was discovered in open loop, so that influence through actors that react to what others
    change is missing; see `Discovery.network`. Training with local observations then warns."""

    # ---- other constructors -------------------------------------------------------------------------------

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[Sequence[Any]],
        actions: Iterable[Hashable] | None = None,
        targets: Iterable[Hashable] | None = None,
    ) -> "InfluenceNetwork":
        """Create a network from ``(action, target)`` or ``(action, target, weight)`` tuples.

        Labels are collected from the edges in order of appearance unless `actions` or `targets` are given. An edge with
        a label that is not among the given ones raises ValueError.

        >>> InfluenceNetwork.from_edges([("a1", "psi1"), ("a1", "psi2", 0.5)]).to_dense()
        array([[1. , 0.5]])
        """
        want = "(action, target) or (action, target, weight)"
        edges = [
            tuple(edge) if np.iterable(edge) and not isinstance(edge, str) else edge
            for edge in listed("edges", edges, f"a list of {want}")
        ]
        for edge in edges:
            if not isinstance(edge, tuple) or len(edge) not in (2, 3):
                raise ValueError(f"edges: got {shown(edge)}, want {want}")
        if not edges and (actions is None or targets is None):
            raise ValueError(
                "edges: got an empty list, want at least one edge, or the labels of all actions and targets"
            )
        row_labels, column_labels = ([str(edge[side]) for edge in edges] for side in (0, 1))
        names = (
            check_labels(dict.fromkeys(row_labels) if actions is None else actions, None, "actions"),
            check_labels(dict.fromkeys(column_labels) if targets is None else targets, None, "targets"),
        )
        rows = positions(row_labels, names[0], "edges (actions)")
        columns = positions(column_labels, names[1], "edges (targets)")
        weight_of: dict[tuple[int, int], float] = {}
        for edge, row, column in zip(edges, rows, columns, strict=True):
            # A repeated edge is one edge; SciPy would add up its weights.
            weight = 1.0 if len(edge) == 2 else _weight(edge)
            if weight_of.setdefault((row, column), weight) != weight:
                raise ValueError(
                    f"edges: {edge[0]!r} → {edge[1]!r} is listed twice with different weights; want it once"
                )
        cells = np.array(list(weight_of), dtype=np.int64).reshape(-1, 2)
        weights = np.array(list(weight_of.values()), dtype=np.float64)
        return cls(sparse.coo_array((weights, tuple(cells.T)), (len(names[0]), len(names[1]))), *names)

    @classmethod
    def from_partition_maps(
        cls, maps: Mapping[Hashable, Iterable[Hashable] | PartitionMap], actions: Iterable[Hashable] | None = None
    ) -> "InfluenceNetwork":
        """Create a network from the actions that each target depends on: the dual view {σⱼ} of the same network.

        >>> InfluenceNetwork.from_partition_maps({"psi1": ["a1", "a2"], "psi2": ["a2"]}).to_dense()
        array([[ True, False],
               [ True,  True]])
        """
        check_type("maps", maps, Mapping, "a dictionary from each target to its actions")
        if not maps:
            raise ValueError("maps: got {}, want at least one target and its actions")
        sizes = {sigma.size for sigma in maps.values() if isinstance(sigma, PartitionMap)}
        if len(sizes) > 1:
            raise ValueError(
                f"maps: got partition maps of different sizes {sorted(sizes)}; want maps of one action space"
            )
        if sizes:
            size = sizes.pop()
            actions = check_labels(default_labels("a", size) if actions is None else actions, size, "actions")
        edges: list[tuple[Any, Any]] = []
        for target, sigma in maps.items():
            if isinstance(sigma, PartitionMap):
                parents = [actions[i] for i in sigma.indices]  # pyright: ignore[reportOptionalSubscript, reportIndexIssue]
            else:
                parents = listed(f"maps[{target!r}]", sigma, "a list of actions")
            edges += [(action, target) for action in parents]
        return cls.from_edges(edges, actions, list(maps))

    @classmethod
    def from_networkx(cls, graph: "nx.Graph") -> "InfluenceNetwork":
        """Create a network from a bipartite networkx graph.

        Nodes with ``bipartite=0`` are actions, nodes with ``bipartite=1`` are targets. Edges may be undirected or lead
        from action to target; an edge's ``weight`` makes the network soft.
        """
        if not hasattr(graph, "nodes"):
            raise TypeError(f"graph: got {shown(graph)}, want a networkx graph with actions and targets")
        if not len(graph.nodes):
            raise ValueError(f"graph: got {shown(graph)} without nodes, want actions and targets")
        side = graph.nodes(data="bipartite")
        unmarked = [str(node) for node, s in side if s not in (0, 1)]
        if unmarked:
            raise ValueError(
                f"graph: {some(unmarked)} has no attribute bipartite, want 0 (action) or 1 (target); set it with "
                "graph.add_node(name, bipartite=0)"
            )
        edges = []
        for u, v, weight in graph.edges(data="weight", default=1.0):
            if not graph.is_directed() and side[u] == 1:  # networkx lists either end of an undirected edge first
                u, v = v, u
            if side[u] != 0 or side[v] != 1:
                raise ValueError(
                    f"graph: got the edge {u!r} → {v!r}, want edges from an action to a target; reverse or remove it"
                )
            edges.append((u, v, weight))
        return cls.from_edges(edges, [a for a, s in side if s == 0], [t for t, s in side if s == 1])

    @classmethod
    def complete(cls, n: int, m: int) -> "InfluenceNetwork":
        """Return the network in which every action influences every target, K = 1: the plain policy gradient.

        The size is not limited by memory: the matrix is created only on request, and `factorax.credit` does not need
        it.
        """
        self = cls.__new__(cls)
        shape = as_index(n, "n", least=1), as_index(m, "m", least=1)
        vars(self).update(_shape=shape, _actions=None, _targets=None, made_complete=True)
        return self

    @classmethod
    def identity(cls, n: int) -> "InfluenceNetwork":
        """Return the identity network: action i influences only target i."""
        return cls(sparse.eye_array(as_index(n, "n", least=1), dtype=bool))

    # ---- properties ---------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """``(n_actions, n_targets)``."""
        return self._shape

    @property
    def static(self) -> "InfluenceNetwork":
        """This network, which does not change during training."""
        return self

    @property
    def matrix(self) -> sparse.csr_array:
        """K in SciPy's CSR format: boolean, or float64 for a soft network. Its arrays are read-only."""
        return copy.copy(self._matrix)  # shares the arrays; what is assigned to it does not change this network

    @cached_property
    def _matrix(self) -> sparse.csr_array:
        n, m = self.shape  # reached only by complete networks, which start without a matrix
        if n * m > 2**31:
            raise MemoryError(
                f"the matrix of a complete network of {n} × {m} would have {n * m} entries; use credit(), which "
                "needs no matrix"
            )
        return canonical(np.ones(self.shape, dtype=bool))

    @cached_property
    def form(self) -> "Form":
        """How K is applied to a target vector: the cheapest form, chosen once, when K is first applied."""
        from .forms import Ones, choose_form

        # A complete network gets its form without its matrix, which might not fit into memory.
        return choose_form(self._matrix) if self._has_matrix else Ones(self.shape[0])

    @cached_property
    def actions(self) -> tuple[str, ...]:
        """Labels of the rows."""
        return self._actions if self._actions is not None else default_labels("a", self.shape[0])

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Labels of the columns."""
        return self._targets if self._targets is not None else default_labels("psi", self.shape[1])

    @property
    def is_soft(self) -> bool:
        """Whether some edge has a weight strictly between 0 and 1."""
        return self._has_matrix and self._matrix.dtype != np.bool_

    @property
    def n_edges(self) -> int:
        """The number of edges: connected pairs (action, target)."""
        return self._matrix.nnz if self._has_matrix else self.shape[0] * self.shape[1]

    @property
    def density(self) -> float:
        """The fraction of all pairs (action, target) that are connected: 1 for the complete network."""
        return self.n_edges / (self.shape[0] * self.shape[1])

    def to_dense(self) -> np.ndarray:
        """Return K as a NumPy array: boolean, or float64 for a soft network."""
        return self._matrix.toarray()

    def edges(self) -> Iterator[tuple[str, str] | tuple[str, str, float]]:
        """Yield ``(action, target)`` for every edge, with the weight as third entry if the network is soft."""
        coo = self._matrix.tocoo()
        for i, j, weight in zip(*coo.coords, coo.data, strict=True):
            ends = self.actions[i], self.targets[j]
            yield (*ends, float(weight)) if self.is_soft else ends

    @cached_property
    def partition_maps(self) -> Mapping[str, PartitionMap]:
        """The partition map σⱼ of every target j: the actions that it depends on (eq. 3 of the paper)."""
        csc = self._matrix.tocsc()
        csc.sort_indices()
        parents = np.split(csc.indices, csc.indptr[1:-1])
        maps = (PartitionMap(p.tolist(), self.shape[0]) for p in parents)
        return MappingProxyType(dict(zip(self.targets, maps, strict=True)))

    # ---- factorisation ------------------------------------------------------------------------------------

    def minimum_factorisation(self) -> Factorisation:
        """Return Σ*, which groups the actions with equal rows of K (Def. 4.2, corrected).

        The paper's "minimum biclique vertex cover" is not unique, e.g. for rows {1}, {2}, {1, 2}. Its text and figures
        imply that every *edge* is covered by bicliques with disjoint actions. The actions of one biclique then have the
        same targets, so the minimum groups equal rows. It exists, is unique, and is found in time linear in the number
        of edges.

        >>> InfluenceNetwork([[1, 1, 0], [1, 1, 0], [0, 1, 1]]).minimum_factorisation().groups
        ((0, 1), (2,))
        """
        if not self._has_matrix:  # complete: one factor
            return Factorisation.from_group_of(np.zeros(self.shape[0], dtype=np.int64))
        from .equal_rows import group_equal_rows

        return Factorisation.from_group_of(group_equal_rows(self._matrix))

    def factor(self, factorisation: Factorisation | Iterable[Iterable[str]]) -> "InfluenceNetwork":
        """Return K_Σ, with one row per factor: the union of the rows of its actions (Def. 3.4).

        Takes a `Factorisation`, or groups of action labels. A factor of one action keeps its label; others are named
        like ``a1+a2``. Merging actions with different rows keeps the gradient unbiased and increases its variance.

        >>> InfluenceNetwork([[1, 1, 0], [1, 1, 0], [0, 1, 1]]).factor([["a1", "a2"], ["a3"]]).actions
        ('a1+a2', 'a3')
        """
        if not isinstance(factorisation, Factorisation):
            factorisation = Factorisation.from_labels(factorisation, self.actions)
        if factorisation.n_actions != self.shape[0]:
            raise ValueError(
                f"factorisation: got {counted(factorisation.n_actions, 'action')}, want {self.shape[0]}, as in "
                "the network"
            )
        names = None
        # Default labels of single actions stay default, so that equal networks stay equal.
        if self._actions is not None or not np.array_equal(factorisation.group_of, np.arange(self.shape[0])):
            names = join_labels([self.actions[i] for i in group] for group in factorisation.groups)
        coo = self._matrix.tocoo()
        row, column = factorisation.group_of[coo.row], coo.col
        order = np.lexsort((coo.data, column, row))[::-1]  # the heaviest of several merged edges comes first
        row, column, weight = row[order], column[order], coo.data[order]
        first = np.ones(len(row), dtype=bool)
        first[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1])
        merged = sparse.coo_array((weight[first], (row[first], column[first])), (len(factorisation), self.shape[1]))
        network = self._derive(merged, names, self._targets)
        vars(network).update(factorisation=factorisation, lacks_reactions=self.lacks_reactions)
        return network

    def twins(self) -> tuple[tuple[str, ...], ...]:
        """Return groups of two or more actions that influence exactly the same targets."""
        groups = self.minimum_factorisation().groups
        return tuple(tuple(self.actions[i] for i in group) for group in groups if len(group) > 1)

    def components(self) -> tuple["InfluenceNetwork", ...]:
        """Return the connected components as networks: sub-problems without a common target."""
        label = self._component_of()
        sides = (
            np.split(np.argsort(side, kind="stable"), np.cumsum(np.bincount(side, minlength=label.max() + 1))[:-1])
            for side in (label[: self.shape[0]], label[self.shape[0] :])
        )
        blocks = zip(*sides, strict=True)
        return tuple(self._select(rows, columns) for rows, columns in blocks if rows.size and columns.size)

    def coparent_condition(self) -> np.ndarray:
        """Return whether the paper's two-term variance formula is exact for each action; shape ``(n_actions,)``.

        It is exact for action i if every co-parent l of i (an action that shares a target with i) has N(l) ⊆ N(i). The
        removed and the kept targets of i then depend on different actions, and the covariance that Prop. 2 omits is
        zero. Equivalently, N(i) contains every target of the connected component of i, which is how it is computed.
        The condition fails for an action with an edge of weight below 1, because part of that target is also removed.

        >>> InfluenceNetwork([[1, 1], [0, 1]]).coparent_condition()  # fork/collider: fails for the second
        array([ True, False])
        """
        if not self._has_matrix:  # complete
            return np.ones(self.shape[0], dtype=bool)
        label, n = self._component_of(), self.shape[0]
        targets_in_component = np.bincount(label[n:], minlength=label.max() + 1)
        degree, coo = np.diff(self._matrix.indptr), self._matrix.tocoo()
        holds = degree == np.where(degree == 0, 0, targets_in_component[label[:n]])
        holds[coo.row[coo.data != 1]] = False
        return holds

    # ---- combining and selecting --------------------------------------------------------------------------

    def union(self, other: "InfluenceNetwork") -> "InfluenceNetwork":
        """Return the network with the edges of either network, with the larger weight if both have one.

        Also ``a | b``.
        """
        return self._combine(other, lambda a, b: a.maximum(b))

    def intersection(self, other: "InfluenceNetwork") -> "InfluenceNetwork":
        """Return the network with the edges of both networks, with the smaller weight. Also ``a & b``."""
        return self._combine(other, lambda a, b: a.minimum(b))

    __or__ = union
    __and__ = intersection

    def relabel(
        self, actions: Iterable[Hashable] | None = None, targets: Iterable[Hashable] | None = None
    ) -> "InfluenceNetwork":
        """Return the same network with other labels."""
        n, m = self.shape
        new_actions = self._actions if actions is None else check_labels(actions, n, "actions")
        new_targets = self._targets if targets is None else check_labels(targets, m, "targets")
        # Labels do not change K, so the matrix and its form are shared.
        network = copy.copy(self)
        for name in ("actions", "targets", "partition_maps", "_digest"):
            vars(network).pop(name, None)
        vars(network).update(_actions=new_actions, _targets=new_targets)
        return network

    def select(
        self, actions: Iterable[Hashable] | None = None, targets: Iterable[Hashable] | None = None
    ) -> "InfluenceNetwork":
        """Return the sub-network of the given actions and targets, by label, in the given order."""
        rows = range(self.shape[0]) if actions is None else positions(actions, self.actions, "actions")
        columns = range(self.shape[1]) if targets is None else positions(targets, self.targets, "targets")
        network = self._select(np.asarray(rows, dtype=np.int64), np.asarray(columns, dtype=np.int64))
        # A selection may cut off the last edge of an action or a target.
        network._warn_of_isolated()
        return network

    # ---- conversion and files -----------------------------------------------------------------------------

    def to_networkx(self) -> "nx.DiGraph":
        """Return a bipartite directed graph, actions → targets, in networkx's convention (see `from_networkx`)."""
        import networkx as nx

        check_distinct(self.actions, self.targets)
        graph = nx.DiGraph()
        graph.add_nodes_from(self.actions, bipartite=0)
        graph.add_nodes_from(self.targets, bipartite=1)
        graph.add_edges_from((a, t, {"weight": weight[0]} if weight else {}) for a, t, *weight in self.edges())
        return graph

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to `path`: ``.json`` (to read and edit by hand) or ``.npz`` (compact, for large networks)."""
        from .storage import save

        save(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "InfluenceNetwork":
        """Read a network from a file that `save` wrote, in either format."""
        from .storage import load

        return load(path, InfluenceNetwork)

    def draw(
        self, style: str = "bipartite", *, factorisation: Factorisation | None = None, ax: "Axes | None" = None
    ) -> "Axes":
        r"""Draw with matplotlib.

        - ``"bipartite"``: actions above, targets below, an arrow for every edge, as in Fig. 1 of the paper. Groups of
          two or more actions of the `factorisation` are drawn next to each other inside a dashed frame.
        - ``"factored"``: one node per policy factor σᵢ, with its actions listed above it, as in Fig. 2b. The default
          `factorisation` is the minimum factorisation.
        - ``"matrix"``: K as an image, for large networks; the rows of a group are framed.

        Soft edges are thinner and paler the smaller their weight. Labels such as ``a1``, ``psi2`` and ``zeta`` are
        rendered as formulas. Without `ax`, a new figure is created. For other styles and formats, such as LaTeX, use
        networkx with ``net.to_networkx()``.

        >>> from factorax.structure import gallery
        >>> net = gallery.three_actions()
        >>> ax = net.draw(factorisation=net.minimum_factorisation())
        >>> ax.figure.savefig("network.svg")  # doctest: +SKIP
        >>> import matplotlib.pyplot as plt
        >>> plt.close(ax.figure)
        """
        from .drawing import draw

        return draw(self, style, factorisation, ax)

    # ---- internals ----------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name}: networks are immutable; create another with select(), relabel(), | or &")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __getstate__(self) -> dict[str, Any]:
        attributes = ("_matrix", "_shape", "_actions", "_targets", "factorisation", "made_complete", "lacks_reactions")
        return {name: vars(self)[name] for name in attributes if name in vars(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self._has_matrix:  # arrays are writable after unpickling
            vars(self)["_matrix"] = canonical(self._matrix)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    def __repr__(self) -> str:
        n, m = self.shape
        soft = "soft " if self.is_soft else ""
        return f"InfluenceNetwork({sizes_label(n, m, self.n_edges, soft)}, density {self.density:.3g})"

    @cached_property
    def _digest(self) -> bytes:
        """A hash that is equal for equal networks, whether labels and the matrix of ones are stored or not."""
        digest = hashlib.blake2b(repr(self.shape).encode(), digest_size=16)
        # A complete network may not have a matrix, so its hash is that of its shape.
        if self.density < 1 or self.is_soft:
            for array in (self._matrix.indptr, self._matrix.indices, self._matrix.data):
                digest.update(array.tobytes())
        digest.update(repr([custom_labels(self._actions, "a"), custom_labels(self._targets, "psi")]).encode())
        return digest.digest()

    @classmethod
    def _derive(
        cls, matrix: Any, actions: tuple[str, ...] | None, targets: tuple[str, ...] | None
    ) -> "InfluenceNetwork":
        """Return a network with labels that are already checked, without repeating warnings."""
        self = cls.__new__(cls)
        self._set(canonical(matrix), actions, targets)
        return self

    def _set(self, matrix: Any, actions: tuple[str, ...] | None, targets: tuple[str, ...] | None) -> None:
        vars(self).update(_matrix=matrix, _shape=matrix.shape, _actions=actions, _targets=targets)
        if "torch" in sys.modules:  # `torch.compile` would trace the choice of a form, and fail: it is made with NumPy
            _ = self.form

    def _combine(self, other: Any, operation: Callable[[Any, Any], Any]) -> "InfluenceNetwork":
        """Return the network with the result of an operation on both matrices, with the labels of this one."""
        other = as_network(other, "other")
        if self.shape != other.shape:
            raise ValueError(f"other: got shape {other.shape}, want {self.shape}, the shape of the first network")
        for side, first, second in (
            ("actions", self.actions, other.actions),
            ("targets", self.targets, other.targets),
        ):
            if first != second:
                a, b = next(pair for pair in zip(first, second, strict=True) if pair[0] != pair[1])
                raise ValueError(
                    f"other: {side} differ ({a!r} against {b!r}), want the same; reorder them with select(), or rename "
                    "them with relabel()"
                )
        network = self._derive(operation(self._matrix, other._matrix), self._actions, self._targets)
        network._warn_of_isolated()
        return network

    @property
    def _has_matrix(self) -> bool:
        return "_matrix" in vars(self)

    def _select(self, rows: np.ndarray, columns: np.ndarray) -> "InfluenceNetwork":
        actions = check_labels((self.actions[i] for i in rows), len(rows), "actions")
        targets = check_labels((self.targets[j] for j in columns), len(columns), "targets")
        return self._derive(self._matrix[rows][:, columns], actions, targets)

    def _component_of(self) -> np.ndarray:
        """Return the connected component of every action, then of every target, shape ``(n + m,)``."""
        from scipy.sparse.csgraph import connected_components  # slow to import

        (n, m), coo = self.shape, self._matrix.tocoo()
        both = sparse.coo_array((np.ones(coo.nnz, dtype=np.int8), (coo.row, coo.col + n)), (n + m, n + m))
        return connected_components(both, directed=False)[1]

    def _warn_of_isolated(self) -> None:
        rows = np.flatnonzero(np.diff(self._matrix.indptr) == 0)
        columns = np.flatnonzero(np.bincount(self._matrix.indices, minlength=self._matrix.shape[1]) == 0)
        if rows.size:
            warn(f"action {some([self.actions[i] for i in rows])} influences no target, so its gradient is zero")
        if columns.size:
            warn(
                f"target {some([self.targets[j] for j in columns])} is influenced by no action, so it has no effect "
                "on learning"
            )


def canonical(matrix: Any) -> sparse.csr_array:
    """Return K as a read-only CSR matrix with sorted indices and no stored zeros.

    The entries are boolean if all weights are 0 or 1, and float64 otherwise.
    """
    raw: Any = matrix
    if not sparse.issparse(matrix):
        try:
            raw = np.asarray(matrix)
        except ValueError as error:
            raise ValueError(
                f"matrix: got {shown(matrix)}, with rows of different lengths; want a rectangular matrix"
            ) from error
    if raw.ndim != 2:
        got = f"shape {raw.shape}" if raw.ndim else shown(matrix)
        raise ValueError(f"matrix: got {got}, want two dimensions (n_actions, n_targets)")
    if raw.dtype.kind not in "biuf":
        raise TypeError(f"matrix: got entries of type {raw.dtype}, want booleans or weights in [0, 1]")
    if 0 in raw.shape:
        raise ValueError(f"matrix: got shape {raw.shape}, want at least one action and one target")
    if raw.dtype != np.bool_:
        raw = raw.astype(np.float64)
    csr = sparse.csr_array(raw, copy=True)  # never share or modify the caller's matrix
    csr.sum_duplicates()
    if csr.dtype != np.bool_:
        if not ((csr.data >= 0) & (csr.data <= 1)).all():
            worst = csr.data[np.argmax(np.maximum(-csr.data, csr.data - 1))]  # NaN, if there is one
            raise ValueError(f"matrix: holds the weight {worst:g}; want booleans or weights in [0, 1]")
        if np.isin(csr.data, (0, 1)).all():
            csr = csr.astype(np.bool_)
    csr.eliminate_zeros()
    csr.sort_indices()
    if max(csr.nnz, *csr.shape) < 2**31:  # one index type, so that equal networks have equal hashes
        csr.indices, csr.indptr = csr.indices.astype(np.int32), csr.indptr.astype(np.int32)
    for array in (csr.data, csr.indices, csr.indptr):
        array.setflags(write=False)
    return csr


def _weight(edge: Sequence[Any]) -> float:
    try:
        weight = float(edge[2])
    except (TypeError, ValueError, OverflowError):
        weight = float("nan")
    if not 0 <= weight <= 1:
        raise ValueError(f"edges: {edge[0]!r} → {edge[1]!r} has the weight {edge[2]!r}, want a number in [0, 1]")
    return weight


def network_of(value: Any, argument: str) -> Any:
    """Return a plain matrix (an array, a sparse matrix or a list) as a network, and any other value unchanged."""
    return as_network(value, argument) if not isinstance(value, BaseNetwork) and _is_matrix(value) else value


def _is_matrix(value: Any) -> bool:
    return isinstance(value, list | tuple) or sparse.issparse(value) or is_array(value)


def as_network(value: Any, argument: str, hint: str = HINT) -> InfluenceNetwork:
    """Return `value` as an `InfluenceNetwork`; a plain matrix gets the default labels.

    Raises TypeError or ValueError with the name of the argument if that is not possible.

    >>> as_network([[1, 0], [0, 1]], "network")
    InfluenceNetwork(2 actions → 2 targets, 2 edges, density 0.5)
    >>> as_network("chain", "net", "load one with InfluenceNetwork.load")
    Traceback (most recent call last):
    TypeError: net: got str, want an InfluenceNetwork; load one with InfluenceNetwork.load
    """
    if isinstance(value, InfluenceNetwork):
        return value
    if not _is_matrix(value):
        raise TypeError(f"{argument}: got {type(value).__name__}, want an InfluenceNetwork; {hint}")
    if is_traced(value):
        raise TypeError(
            f"{argument}: got an array that is traced by JAX, but K must be a constant of the program; create it "
            "outside the compiled function, or pass a KArray to credit()"
        )
    try:
        return InfluenceNetwork(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{argument}: {str(error).removeprefix('matrix: ')}") from None
