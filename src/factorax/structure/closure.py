"""Derive the network of returns from a one-step reward network."""

from collections.abc import Iterable
from numbers import Number
from typing import Any

import numpy as np
from scipy import sparse

from .._checks import checked
from .._text import shown, some, warn
from .labels import check_distinct
from .network import InfluenceNetwork, as_network


def close_over(net: Any, dynamics: Any, *, local_actors: bool = True) -> InfluenceNetwork:
    """Return the network of *returns*: which action can change which target now or at any later step.

    A one-step reward network says which rewards an action changes at once. A return also includes later rewards,
    after the action has changed the state, the state has evolved, and other actors have reacted to it. Applied to
    returns, the one-step network biases the gradient and the network of returns does not. The result has an edge
    i → j iff there is a path from i to j through `net` and `dynamics` together.

    **Arguments**

    - `net`: the one-step network, with an edge `a → ψ` if action a changes reward ψ in the same step.
    - `dynamics`: a directed networkx graph, or a list of ``(from, to)`` pairs, over action labels, target labels and
      any other names, which become state variables. An edge `u → v` means "u now changes v at the next step"; an edge
      into a target means "the reward ψ depends on u"; an edge into an action means "the actor of this action observes
      u". If each target has a state of its own (the queue of a street, the stock of a shop), edges may lead from
      target to target, or `dynamics` may be an ``(n_targets, n_targets)`` matrix. A target without edges from or to
      other targets is an output that no actor observes.
    - `local_actors`: if true, an actor observes the variables with an edge into its action, or, if there are none,
      the variables that its action changes directly. If false, every actor observes the whole state; an action that
      changes any part of it then influences all later actions, and a sparse network is rarely exact.

    >>> heaters = InfluenceNetwork.from_edges([("heat1", "bill1"), ("heat2", "bill2")])
    >>> rooms = [("heat1", "temp1"), ("heat2", "temp2"), ("temp1", "bill1"), ("temp2", "bill2")]
    >>> close_over(heaters, rooms) == heaters  # two houses
    True
    >>> close_over(heaters, [*rooms, ("temp1", "temp2")]).to_dense().astype(int)  # a wall between them
    array([[1, 1],
           [0, 1]])
    >>> close_over(heaters, rooms, local_actors=False).density  # both thermostats read both temperatures
    1.0
    """
    net = as_network(net, "net")
    n, m = net.shape
    edges, size = influences(net, dynamics, local_actors=local_actors)
    u, v = np.array(sorted(edges), dtype=np.int64).reshape(-1, 2).T
    step = sparse.csr_array((np.ones(len(u), dtype=bool), (u, v)), (size, size))
    return InfluenceNetwork._derive(_reach(step, n)[:, n : n + m], net.actions, net.targets)


def influences(net: InfluenceNetwork, dynamics: Any, *, local_actors: bool) -> tuple[set[tuple[int, int]], int]:
    """Return all direct influences as pairs of indices, and the number of indices.

    Indices count first the actions, then the targets, then the other state variables. An edge from a variable into
    an action means that the actor observes the variable.
    """
    checked("local_actors", local_actors, bool)
    n, m = net.shape
    check_distinct(net.actions, net.targets)
    index = {name: i for i, name in enumerate((*net.actions, *net.targets))}
    edges = {(index.setdefault(u, len(index)), index.setdefault(v, len(index))) for u, v in _pairs(net, dynamics)}

    one_step = net.matrix.tocoo()
    direct = edges | {(int(i), n + int(j)) for i, j in zip(*one_step.coords, strict=True)}
    _warn_of_idle_states(edges, list(index), n, m)
    # State variables: every other name, and every target that influences something or is changed by another target.
    state = set(range(n + m, len(index))) | {u for u, _ in edges if n <= u < n + m}
    state |= {v for u, v in edges if n <= u < n + m and n <= v < n + m}
    if sparse.issparse(dynamics) or isinstance(dynamics, np.ndarray):
        state |= set(range(n, n + m))  # a target-to-target matrix makes the targets the state
    if local_actors:
        with_edges = {v for _, v in edges if v < n}
        reads = {(v, u) for u, v in direct if u < n and u not in with_edges and v in state}
    else:
        reads = {(x, i) for x in state for i in range(n)}
    return direct | reads, len(index)


def _warn_of_idle_states(edges: set[tuple[int, int]], names: list[str], n: int, m: int) -> None:
    """Warn of a state variable without incoming or without outgoing edges: it is often a mistyped label."""
    changed_states, changing = {v for _, v in edges}, {u for u, _ in edges}
    observable = {v for u, v in edges if u < n}  # the actor that changes it may observe it
    for idle, what in (
        (changing - changed_states, "nothing changes"),
        (changed_states - changing - observable, "nothing depends on"),
    ):
        states = [names[i] for i in sorted(idle) if i >= n + m]
        if states:
            warn(f"dynamics: {what} the state variable {some(states)}; is it a mistyped action or target?")


def _pairs(net: InfluenceNetwork, dynamics: Any) -> list[tuple[str, str]]:
    """Return the edges of `dynamics` as pairs of names, for any input that `close_over` accepts."""
    if isinstance(dynamics, InfluenceNetwork):
        raise TypeError(
            "dynamics: got an InfluenceNetwork, want a networkx.DiGraph, pairs of names or a matrix; pass its "
            "to_networkx() if its labels are names of actions, targets and states, or its to_dense() if it leads from "
            "targets to targets"
        )
    if hasattr(dynamics, "edges"):
        if not dynamics.is_directed():
            raise ValueError("dynamics: got an undirected graph; want a networkx.DiGraph, such as graph.to_directed()")
        return [(str(u), str(v)) for u, v in dynamics.edges()]
    if sparse.issparse(dynamics) or isinstance(dynamics, np.ndarray):
        m = net.shape[1]
        matrix: Any = dynamics
        if matrix.shape != (m, m):
            raise ValueError(f"dynamics: got a matrix of shape {matrix.shape}, want ({m}, {m}), target to target")
        coo = sparse.coo_array(matrix)
        return [(net.targets[i], net.targets[j]) for i, j in zip(*coo.coords, strict=True)]
    if isinstance(dynamics, Iterable) and not isinstance(dynamics, str):
        pairs = list(dynamics)
        odd = next(
            (pair for pair in pairs if isinstance(pair, str) or not np.iterable(pair) or len(list(pair)) != 2), None
        )
        if odd is not None:
            raise ValueError(f"dynamics: got {shown(odd)}, want (from, to) pairs of names")
        named = [(str(u), str(v)) for u, v in pairs]
        # Pairs of numbers are most likely a matrix as nested lists, whose indices would silently become names.
        numbers = any(isinstance(name, Number | np.generic) for pair in pairs for name in pair)
        if numbers and not set(net.actions + net.targets) & {name for pair in named for name in pair}:
            raise ValueError(f"dynamics: got {pairs[0]!r}, want pairs of names; give a matrix as a NumPy array")
        return named
    raise TypeError(f"dynamics: got {type(dynamics).__name__}, want a networkx.DiGraph, pairs of names or a matrix")


def _reach(step: sparse.csr_array, n: int) -> Any:
    """Return the nodes that can be reached from each of the first n nodes; each pair (source, node) is visited once."""
    reached: Any = sparse.csr_array((n, step.shape[0]), dtype=bool)
    frontier = step[:n]
    # Only nodes that are new go on, so that cycles end.
    while frontier.nnz:
        reached = (reached + frontier).astype(bool)
        spread = (frontier @ step).astype(bool)
        frontier = (spread > reached).tocsr()
        frontier.eliminate_zeros()
    return reached
