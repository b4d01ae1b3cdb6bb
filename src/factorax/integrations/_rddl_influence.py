"""Influence networks of RDDL models: reachability through the fluents, from dependencies of expressions."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from graphlib import TopologicalSorter
from operator import or_
from typing import Literal

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from .._checks import checked
from .._text import some, warn
from ..structure import InfluenceNetwork
from ._rddl_dependencies import Dependencies, members
from ._rddl_terms import Terms

Reads = Literal["relevant", "uncoupled"]


@dataclass(frozen=True, eq=False)
class Influence:
    """The influence networks of a model, and the fluents that its actors read."""

    network: InfluenceNetwork
    """The network of returns: which ground action fluent can change which reward term now or later, directly or through
    the reactions of other actors."""
    dynamics_network: InfluenceNetwork
    """The same without reactions of other actors: closed only over the dynamics of the model."""
    one_step_network: InfluenceNetwork
    """The terms that each action can change in the same step."""
    observed: tuple[str, ...]
    """The ground fluents of an observation, in order."""
    reads: np.ndarray
    """Which observed fluents the actor of each action reads, ``(n_actions, n_observed)``."""


class Graph:
    """A graph of influences over numbered nodes."""

    def __init__(self, size: int):
        self.size = size
        self.edges: list[tuple[int, int]] = []
        self._sets: dict[int, int] = {}

    def join(self, roots: int, node: int) -> None:
        """Add edges from all members of a set to a node, through an intermediate node shared by equal sets."""
        if roots not in self._sets:
            self._sets[roots] = self.size
            self.edges += [(k, self.size) for k in members(roots)]
            self.size += 1
        self.edges.append((self._sets[roots], node))

    def reach(self, sets: Iterable[int], *, upstream: bool) -> list[int]:
        """Return for each node the union of the sets at the nodes that can reach it, or (`upstream`) that it can reach.

        The first nodes have the given sets, the others are empty.
        """
        u, v = np.array(self.edges, dtype=np.int64).reshape(-1, 2).T
        u, v = (v, u) if upstream else (u, v)
        adjacency = sparse.csr_array((np.ones(len(u), bool), (u, v)), (self.size, self.size))
        # One set per strongly connected component: all nodes of a cycle reach the same.
        count, group = connected_components(adjacency, connection="strong")
        unions = [0] * count
        for node, roots in enumerate(sets):
            unions[group[node]] |= roots
        before: dict[int, set[int]] = {g: set() for g in range(count)}
        for a, b in zip(group[u].tolist(), group[v].tolist(), strict=True):
            if a != b:
                before[b].add(a)
        for g in TopologicalSorter(before).static_order():
            unions[g] = reduce(or_, (unions[a] for a in before[g]), unions[g])
        return [unions[g] for g in group.tolist()]


def _table(sets: Iterable[int], width: int) -> np.ndarray:
    """Return sets as rows of a boolean array."""
    rows = [np.frombuffer(s.to_bytes(width // 8 + 1, "little"), np.uint8) for s in sets]
    return np.unpackbits(np.array(rows).reshape(len(rows), -1), axis=1, count=width, bitorder="little").astype(bool)


def read_influence(dependencies: Dependencies, terms: Terms, reads: Reads) -> Influence:
    """Return the reachability from actions to terms, through the fluents of the model and the reads of the actors."""
    checked("reads", reads, Reads)
    model = dependencies.model
    n, m, size = len(dependencies.actions), len(terms.names), len(dependencies.actions) + len(dependencies.states)
    end = size + m
    graph = Graph(end + 1)  # actions, states, terms, the end of the episode
    for j, roots in enumerate(terms.roots):
        graph.join(roots, size + j)
    one_step = _table(terms.roots, size)[:, :n].T
    if model.max_allowed_actions < n:
        # Under a limit of concurrent actions, an action may block those after it.
        graph.edges += [(i, i + 1) for i in range(n - 1)]
        one_step = np.logical_or.accumulate(one_step[::-1])[::-1]
    updates = (roots for after in model.next_state.values() for roots in np.ravel(dependencies.values[after].roots))
    for state, roots in enumerate(updates, n):
        graph.join(roots, state)
    for condition in model.terminations:  # the end of an episode cancels all later rewards
        graph.join(dependencies.of(condition, [], "the termination condition").roots.item(), end)
    graph.edges += [(end, size + j) for j in range(m)]

    targets = [0] * size + [1 << j for j in range(m)]
    reached = _table(graph.reach(targets, upstream=True)[:size], m)
    network = dynamics = reached[:n]
    observations = dependencies.observations()
    reveals = _table((roots for _, roots in observations), size)
    # In 32-bit floats, for which NumPy has a fast product. Products of 0–1 matrices count paths; only whether there is
    # any matters.
    reading = network.astype(np.float32) @ (reveals[:, n:].astype(np.float32) @ reached[n:] > 0).T > 0
    if reads == "uncoupled":
        # Actions with one row of the network are one row here: a model has far fewer kinds of actions than actions.
        changes = _table(graph.reach((1 << i for i in range(n)), upstream=False)[:size], n)
        rows, row_of = np.unique(network, axis=0, return_inverse=True)
        changes_observation = np.zeros((len(rows), len(observations)), bool)
        np.logical_or.at(changes_observation, row_of, (reveals.astype(np.float32) @ changes > 0).T)
        has_other_target = rows.astype(np.float32) @ ~rows.T > 0  # the first row has one that the second lacks
        reading &= ~(has_other_target.astype(np.float32) @ changes_observation > 0)[row_of]
    else:
        rows, row_of = np.unique(reading, axis=0, return_inverse=True)
        roots_of_row = [reduce(or_, (observations[f][1] for f in np.flatnonzero(row)), 0) for row in rows]
        for i, row in enumerate(row_of):
            graph.join(roots_of_row[row], i)
        network = _table(graph.reach(targets, upstream=True)[:n], m)
    idle = [name for name, row in zip(dependencies.actions, network, strict=True) if not row.any()]
    if idle:
        warn(f"action {some(idle)} influences no term of the reward, so its gradient is zero")

    def labelled(matrix: np.ndarray) -> InfluenceNetwork:
        return InfluenceNetwork._derive(matrix, dependencies.actions, terms.names)

    return Influence(
        network=labelled(network),
        dynamics_network=labelled(dynamics),
        one_step_network=labelled(one_step),
        observed=tuple(name for name, _ in observations),
        reads=reading,
    )
