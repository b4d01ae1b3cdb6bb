"""Networks by lag: influence spreads at a finite speed, and what it cannot have reached yet is noise."""

from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from .closure import influences, matrix_of
from .labels import edge_label
from .network import InfluenceNetwork


class LaggedNetwork:
    """K[τ]: which action can have changed which target τ steps later, K[0] ⊆ K[1] ⊆ ….

    The return of target j from time t on is Σ_τ γ^τ r_j(t+τ). Of it an action at t can have changed what comes at the
    lag ℓᵢⱼ and after; the terms before are noise to it, so that

        kᵢ = Σ_τ γ^τ [K[τ](λ∘r(t+τ))]ᵢ

    gives the same expected gradient as the network of returns K[∞], with less noise in it.

    **Arguments**

    - `parts`: from a lag to the network of the edges that begin to act then; an edge is in one of them.

    >>> chain = LaggedNetwork.from_lags([[0, 2], [-1, 0]])  # the second target feels the first action after two steps
    >>> chain
    LaggedNetwork(2 actions → 2 targets, 3 edges, lags 0 to 2)
    >>> chain.at(1).to_dense().astype(int), chain.start.to_dense().astype(int)
    (array([[1, 0],
           [0, 1]]), array([[1, 1],
           [0, 1]]))
    """

    def __init__(self, parts: Mapping[int, InfluenceNetwork]):
        if not parts:
            raise ValueError("parts: got none, want at least one lag and its network")
        for lag, net in parts.items():
            if not isinstance(net, InfluenceNetwork):
                raise TypeError(f"parts: got {type(net).__name__} at lag {lag}, want an InfluenceNetwork")
            if int(lag) != lag or lag < 0:
                raise ValueError(f"parts: got the lag {lag!r}, want whole numbers of steps, from 0 on")
        self.parts: dict[int, InfluenceNetwork] = {int(lag): parts[lag] for lag in sorted(parts)}
        first = next(iter(self.parts.values()))
        if any((net.actions, net.targets) != (first.actions, first.targets) for net in self.parts.values()):
            raise ValueError("parts: got networks of different actions or targets, want the same for all lags")
        count: Any = 0 * first.matrix.astype(int)
        for net in self.parts.values():
            count = count + net.matrix.astype(bool).astype(int)
        if count.max() > 1:
            i, j = np.argwhere(count.toarray() > 1)[0]
            raise ValueError(
                f"parts: the edge {edge_label(first.actions[i], first.targets[j])} begins at two lags, want it at the "
                "first alone; it stays from then on"
            )

    @classmethod
    def from_lags(
        cls, lags: Any, actions: Iterable[Hashable] | None = None, targets: Iterable[Hashable] | None = None
    ) -> "LaggedNetwork":
        """From a matrix ``(n, m)`` of the steps that influence takes; −1 where there is none."""
        matrix = np.asarray(lags)
        if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.integer) or matrix.min(initial=0) < -1:
            raise ValueError(
                f"lags: got {matrix.dtype} of shape {matrix.shape}, want whole numbers (n, m), −1 for no edge"
            )
        if matrix.max(initial=-1) < 0:
            raise ValueError("lags: got no edge at all, want at least one entry of 0 or more")
        closed = InfluenceNetwork(matrix >= 0, actions, targets)
        names = closed.actions, closed.targets
        return cls(
            {int(lag): InfluenceNetwork._derive(matrix == lag, *names) for lag in np.unique(matrix[matrix >= 0])}
        )

    @classmethod
    def over(cls, net: InfluenceNetwork, dynamics: Any, *, local_actors: bool = True) -> "LaggedNetwork":
        """From a one-step network and a dynamics graph, as `close_over` takes them: one step for each change of state.

        A reward reads the state as it is, so an action that moves a state changes what reads it from the next step on.

        >>> rooms = [("heat1", "temp1"), ("temp1", "temp2"), ("temp2", "bill2")]
        >>> net = InfluenceNetwork.from_edges([("heat1", "bill1"), ("heat2", "bill2")])
        >>> LaggedNetwork.over(net, rooms).lags
        array([[ 0,  2],
               [-1,  0]])
        """
        n, m = net.shape
        edges, size = influences(net, dynamics, local_actors=local_actors)
        # A state moves with the next step; rewards and actors read what there is.
        moves = {(u, v) for u, v in edges if v >= n + m or (n <= u < n + m and n <= v < n + m)}
        lags = _arrivals(matrix_of(edges - moves, size), matrix_of(moves, size), n)[:, n : n + m]
        return cls.from_lags(lags, net.actions, net.targets)

    @property
    def shape(self) -> tuple[int, int]:
        """``(n_actions, n_targets)``."""
        return self.start.shape

    @cached_property
    def start(self) -> InfluenceNetwork:
        """K[∞], the network of returns: every edge, whenever it begins to act."""
        return self.at(max(self.parts))

    @property
    def lags(self) -> np.ndarray:
        """The steps that influence takes, ``(n, m)``; −1 where there is none."""
        found = np.full(self.shape, -1)
        for lag, net in self.parts.items():
            found[net.matrix.nonzero()] = lag
        return found

    def at(self, lag: int) -> InfluenceNetwork:
        """K[τ]."""
        nets = list(self.parts.values())
        total = sum((net.matrix for at, net in self.parts.items() if at <= lag), start=0 * nets[0].matrix)
        return InfluenceNetwork._derive(total, nets[0].actions, nets[0].targets)

    def __repr__(self) -> str:
        n, m = self.shape
        first, last = min(self.parts), max(self.parts)
        return f"LaggedNetwork({n} actions → {m} targets, {self.start.n_edges} edges, lags {first} to {last})"


def _arrivals(at_once: sparse.csr_array, later: sparse.csr_array, n: int) -> np.ndarray:
    """Steps from each of the first n nodes to all, by edges that take none and edges that take one; −1 if never."""
    size = at_once.shape[0]
    found = np.full((n, size), -1)
    frontier: Any = sparse.eye_array(n, size, dtype=bool, format="csr")
    lag = 0
    while frontier.nnz:
        new = frontier
        while new.nnz:
            found[new.nonzero()] = lag
            spread = (new @ at_once).astype(bool)
            new = spread.multiply(found < 0).astype(bool).tocsr()
            new.eliminate_zeros()
        level = sparse.csr_array(found == lag)
        frontier = (level @ later).astype(bool).multiply(found < 0).astype(bool).tocsr()
        frontier.eliminate_zeros()
        lag += 1
    return found
