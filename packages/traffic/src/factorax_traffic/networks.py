"""Influence of lights on streets: from the paper's local baseline to everything that cars can transmit."""

import warnings
from typing import Annotated, Literal

import numpy as np
from scipy import sparse

from factorax._checks import Range, check_type, checked
from factorax.structure import InfluenceNetwork, LaggedNetwork, StructureWarning
from factorax.structure.factorisation import as_index

from .driving import TOP_SPEED
from .grid import INNER, Grid
from .targets import Kind

Preset = Literal["in", "incident", "n-level", "corridor", "decay", "complete"]


def influence(
    grid: Grid,
    preset: Preset = "incident",
    *,
    kind: Kind = "edges",
    n: int = 0,
    rows: Literal["same", "both"] = "same",
    alpha: float = 0.5,
) -> InfluenceNetwork:
    """Return an influence network from the lights of a grid to its streets, or to its lights.

    **Arguments**

    - `preset`: ``"in"``: the four streets that lead to a light; streets out of the grid are not influenced.
      ``"incident"``: those and the four that lead away, the paper's local baseline. ``"n-level"``: the incident streets
      of all lights at most `n` columns away, the paper's Fig. 5b. ``"corridor"``: the light's row and column; since no
      car turns, a light cannot change anything else while other lights keep their actions. ``"decay"``: the corridor
      with weights αᵈ, where d is the number of lights in between. ``"complete"``: all streets.
    - `kind`: targets per street or per light; a light is influenced if one of its streets is. With ``"n-level"`` by
      light the targets are the lights of the window.
    - `rows`: whether the window of ``"n-level"`` lies in the light's own row, or spans all rows.

    >>> influence(Grid(3, 3))
    InfluenceNetwork(9 actions → 48 targets, 72 edges, density 0.167)
    >>> influence(Grid(2, 6), "n-level", n=1).to_dense().sum(axis=1)[:6]
    array([14, 20, 20, 20, 20, 14])
    """
    check_type("grid", grid, Grid, "a Grid, such as Grid(3, 3)")
    checked("network", preset, Preset)
    checked("kind", kind, Kind)
    checked("rows", rows, Literal["same", "both"])
    checked("alpha", alpha, Annotated[float, Range(0, 1, open=True)])
    n = as_index(n, "n", least=0)
    lights, targets = grid.lights, grid.edges if kind == "edges" else grid.lights
    if preset == "complete":
        return InfluenceNetwork.complete(grid.n_lights, len(targets)).relabel(lights, targets)
    if preset == "n-level":
        window = _window(grid, n, rows)
        matrix = window if kind == "lights" else (window @ _incident(grid)).astype(bool)
        return InfluenceNetwork(matrix, lights, targets)
    matrix = (
        _in(grid) if preset == "in" else _incident(grid) if preset == "incident" else _corridor(grid, preset, alpha)
    )
    if kind == "lights":
        matrix = _by_light(grid, matrix)
    with warnings.catch_warnings():
        if preset == "in":  # this preset omits streets on purpose
            warnings.simplefilter("ignore", StructureWarning)
        return InfluenceNetwork(matrix, lights, targets)


def _matrix(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int], data: np.ndarray | None = None):
    data = np.ones(rows.size, bool) if data is None else data.ravel()
    return sparse.csr_array((data, (rows.ravel(), columns.ravel())), shape)


def _in(grid: Grid) -> sparse.csr_array:
    light = np.repeat(np.arange(grid.n_lights), 4)
    return _matrix(light, grid.incoming, (grid.n_lights, grid.n_edges))


def _incident(grid: Grid) -> sparse.csr_array:
    light = np.repeat(np.arange(grid.n_lights), 8)
    return _matrix(light, np.concatenate([grid.incoming, grid.outgoing], axis=1), (grid.n_lights, grid.n_edges))


def _window(grid: Grid, n: int, rows: str) -> sparse.csr_array:
    """Return which lights are at most n columns away, ``(n_lights, n_lights)``."""
    near = np.abs(np.subtract.outer(np.arange(grid.columns), np.arange(grid.columns))) <= n
    same = np.eye(grid.rows, dtype=bool) if rows == "same" else np.ones((grid.rows, grid.rows), bool)
    return sparse.csr_array(sparse.kron(sparse.csr_array(same), sparse.csr_array(near)).astype(bool))


def _corridor(grid: Grid, preset: str, alpha: float) -> sparse.csr_array:
    """Return the row and column of each light, with weights αᵈ for the preset ``"decay"``."""
    rows, columns, before, after = _along(grid)
    data = alpha ** np.maximum(before, after) if preset == "decay" else None
    return _matrix(rows, columns, (grid.n_lights, grid.n_edges), data)


def _along(grid: Grid) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return each light with each street of its row and column, and the number of lights between, before and after
    it."""
    light, edge, before, after = [], [], [], []
    for streets, passed in zip(grid.routes, grid.route_lights, strict=True):
        numbers = np.array([grid.number[name] for name in streets])
        along = np.arange(len(passed))[:, None]
        street = np.arange(len(streets))
        # Light j is between streets j and j + 1 of its route.
        before.append(np.maximum(along - street, 0))
        after.append(np.maximum(street - along - 1, 0))
        light.append(np.broadcast_to(np.array(passed)[:, None], before[-1].shape))
        edge.append(np.broadcast_to(numbers, before[-1].shape))
    rows, columns, back, on = (np.concatenate([x.ravel() for x in parts]) for parts in (light, edge, before, after))
    return rows, columns, back, on


def travel_times(grid: Grid, *, kind: Kind = "edges") -> LaggedNetwork:
    """Return the corridor by lag: a street further on is influenced once the fastest car from the light can reach it.

    The streets before a light are influenced immediately, because a braking car affects those behind it, also across a
    junction.

    >>> travel_times(Grid(2, 6))
    LaggedNetwork(12 actions → 64 targets, 240 edges, lags 0 to 50)
    """
    check_type("grid", grid, Grid, "a Grid, such as Grid(3, 3)")
    checked("kind", kind, Kind)
    rows, columns, _, after = _along(grid)
    lags = (after * INNER / TOP_SPEED).astype(int)
    if kind == "lights":
        columns = grid.light_of[columns]
    targets = grid.edges if kind == "edges" else grid.lights
    pair = rows.astype(np.int64) * len(targets) + columns
    pairs, which = np.unique(pair, return_inverse=True)
    first = np.full(len(pairs), np.iinfo(int).max)
    np.minimum.at(first, which, lags)
    parts = {}
    for lag in np.unique(first).tolist():
        at = pairs[first == lag]
        matrix = _matrix(at // len(targets), at % len(targets), (grid.n_lights, len(targets)))
        parts[lag] = InfluenceNetwork._derive(matrix, grid.lights, targets)
    return LaggedNetwork(parts)


def _by_light(grid: Grid, matrix: sparse.csr_array) -> sparse.csr_array:
    """Return the strongest influence on any street of each light, ``(n_lights, n_lights)``."""
    coo = matrix.tocoo()
    n = grid.n_lights
    pair = coo.coords[0].astype(np.int64) * n + grid.light_of[coo.coords[1]]
    pairs, which = np.unique(pair, return_inverse=True)
    strongest = np.zeros(len(pairs), coo.data.dtype)
    np.maximum.at(strongest, which, coo.data)
    return _matrix(pairs // n, pairs % n, (n, n), strongest)
