"""From a one-step reward network to the network of returns."""

from collections.abc import Iterable
from numbers import Number
from typing import Any

import numpy as np
from scipy import sparse

from .._checks import checked, shown
from .checks import as_network
from .labels import some, warn
from .network import InfluenceNetwork


def close_over(net: Any, dynamics: Any, *, local_actors: bool = True) -> InfluenceNetwork:
    """Return the network of *returns*: which action can change which target now or at any later step.

    A one-step reward network says which rewards an action changes at once. A return also includes later rewards,
    after the action has changed the state, the state has evolved, and other actors have reacted to it. Used for
    returns, the one-step network biases the gradient; this one does not. An edge i → j is in the
    result iff there is a path from i to j through `net` and `dynamics` together.

    **Arguments**

    - `net`: the one-step network, `a → ψ` where action a changes reward ψ at once.
    - `dynamics`: a directed networkx graph, or a list of ``(from, to)`` pairs, over action labels, target labels and
      any other names, which are state variables. `u → v` reads "u now changes v at the next step"; into a target,
      "ψ reads u"; into an action, "the actor of this action reads u". If the state is kept by target (the queue of a
      street, the stock of a shop) edges may lead from target to target, or use an ``(n_targets, n_targets)`` matrix.
      A target without edges from or to other targets is an output that no actor reads.
    - `local_actors`: if true, an actor reads what edges lead into its action, or, where there are none, what its own
      action changes directly. If false every actor reads the whole state: then an action that changes any of it
      influences all later actions, and a sparse network is rarely exact.

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
    return InfluenceNetwork._derive(_reach(matrix_of(edges, size), n)[:, n : n + m], net.actions, net.targets)


def influences(net: InfluenceNetwork, dynamics: Any, *, local_actors: bool) -> tuple[set[tuple[int, int]], int]:
    """Return all direct influences as pairs of numbers, and how many names there are: first actions, then targets, then
    the rest of the state. What an actor reads leads into its action."""
    checked("local_actors", local_actors, bool)
    n, m = net.shape
    clash = sorted(set(net.actions) & set(net.targets))
    if clash:
        raise ValueError(
            f"net: {some(clash)} names both an action and a target; want different names: rename one side with "
            "relabel()"
        )
    index = {name: i for i, name in enumerate((*net.actions, *net.targets))}
    edges = {(index.setdefault(u, len(index)), index.setdefault(v, len(index))) for u, v in _pairs(net, dynamics)}

    one_step = net.matrix.tocoo()
    moves = edges | {(int(i), n + int(j)) for i, j in zip(*one_step.coords, strict=True)}
    _warn_of_idle_states(edges, list(index), n, m)
    # State: every other name, and a target that something depends on or that another target moves.
    state = set(range(n + m, len(index))) | {u for u, _ in edges if n <= u < n + m}
    state |= {v for u, v in edges if n <= u < n + m and n <= v < n + m}
    if sparse.issparse(dynamics) or isinstance(dynamics, np.ndarray):
        state |= set(range(n, n + m))  # a matrix from target to target says that targets are the state
    if local_actors:
        told = {v for _, v in edges if v < n}
        reads = {(v, u) for u, v in moves if u < n and u not in told and v in state}
    else:
        reads = {(x, i) for x in state for i in range(n)}
    return moves | reads, len(index)


def _warn_of_idle_states(edges: set[tuple[int, int]], names: list[str], n: int, m: int) -> None:
    """A state that nothing moves, or that moves nothing, is most often a mistyped action or target."""
    moved, moving = {v for _, v in edges}, {u for u, _ in edges}
    touched = {v for u, v in edges if u < n}  # may be read by the actor that touches it
    for idle, what in ((moving - moved, "nothing moves"), (moved - moving - touched, "nothing depends on")):
        states = [names[i] for i in sorted(idle) if i >= n + m]
        if states:
            warn(f"dynamics: {what} the state {some(states)}; is it a mistyped action or target?")


def _pairs(net: InfluenceNetwork, dynamics: Any) -> list[tuple[str, str]]:
    """Return the edges of `dynamics` as pairs of names, from any form that `close_over` takes."""
    if hasattr(dynamics, "edges"):
        if not dynamics.is_directed():
            raise ValueError("dynamics: got an undirected graph; want a networkx.DiGraph (graph.to_directed() does)")
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
        numbers = any(isinstance(name, Number | np.generic) for pair in pairs for name in pair)
        if numbers and not set(net.actions + net.targets) & {name for pair in named for name in pair}:
            raise ValueError(f"dynamics: got {pairs[0]!r}, want pairs of names; give a matrix as a NumPy array")
        return named
    raise TypeError(f"dynamics: got {type(dynamics).__name__}, want a networkx.DiGraph, pairs of names or a matrix")


def matrix_of(edges: set[tuple[int, int]], size: int) -> sparse.csr_array:
    """Return pairs of numbers as a matrix of booleans, ``(size, size)``."""
    u, v = np.array(sorted(edges), dtype=np.int64).reshape(-1, 2).T
    return sparse.csr_array((np.ones(len(u), dtype=bool), (u, v)), (size, size))


def _reach(step: sparse.csr_array, n: int) -> Any:
    """Return what each of the first n nodes reaches; each pair (source, node) is visited once."""
    reached: Any = sparse.csr_array((n, step.shape[0]), dtype=bool)
    frontier = step[:n]
    while frontier.nnz:
        reached = (reached + frontier).astype(bool)
        spread = (frontier @ step).astype(bool)
        frontier = (spread > reached).tocsr()
        frontier.eliminate_zeros()
    return reached
