"""The grid of streets: names, lengths, routes, and the streets at each light. Both simulators use it.

Rows are numbered from the south, columns from the west, and light k = r·C + c stands at the crossing of row r and
column c. Cars go straight: each route is one row or column in one direction, and routes meet only at lights.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from factorax.structure.factorisation import as_index

ENTRY, INNER, EXIT = 300.0, 300.0, 100.0
"""Lengths of streets in metres: into the grid, between two lights, and out of it."""
JUNCTION = 18.8
"""Length of the way through a junction."""
SPEED_LIMIT = 35.0
"""Speed limit of all streets, in metres per second."""
STANDING_AT, STANDING_BETWEEN = 6.0, 30.0
"""Positions of the first cars, in metres from the start of a street into the grid and of one between two lights."""


@dataclass(frozen=True)
class Grid:
    """R × C traffic lights.

    A street is named by its direction and position: ``bot{r}_{j}`` to the east, ``top{r}_{j}`` to the west (row r, just
    west of column j), ``right{i}_{c}`` to the north, ``left{i}_{c}`` to the south (column c, just south of row i).
    Streets are numbered in the alphabetical order of their names.

    >>> grid = Grid(3, 3)
    >>> grid.n_lights, grid.n_edges, grid.n_routes
    (9, 48, 12)
    >>> grid.routes[0]
    ('right0_0', 'right1_0', 'right2_0', 'right3_0')
    >>> [grid.edges[e] for e in grid.incoming[4]]
    ['bot1_1', 'right1_1', 'top1_2', 'left2_1']
    """

    rows: int
    columns: int

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            size = as_index(getattr(self, name), name, least=1)
            if size > 320:
                raise ValueError(f"{name}: got {size}, want a number from 1 to 320")

    @property
    def n_lights(self) -> int:
        """Number of lights, n = R·C."""
        return self.rows * self.columns

    @property
    def n_edges(self) -> int:
        """Number of streets, m = 4RC + 2R + 2C."""
        return len(self.edges)

    @property
    def n_routes(self) -> int:
        """Number of routes: two per row and per column."""
        return 2 * (self.rows + self.columns)

    @cached_property
    def lights(self) -> tuple[str, ...]:
        """Names of the lights, by index."""
        return tuple(f"center{k}" for k in range(self.n_lights))

    @cached_property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        """The streets of each route, in order: for each column to the north and to the south, then for each row to the
        east and to the west."""
        R, C = self.rows, self.columns
        routes = []
        for c in range(C):
            north = [f"right{i}_{c}" for i in range(R + 1)]
            routes += [tuple(north), tuple(f"left{i}_{c}" for i in reversed(range(R + 1)))]
        for r in range(R):
            east = [f"bot{r}_{j}" for j in range(C + 1)]
            routes += [tuple(east), tuple(f"top{r}_{j}" for j in reversed(range(C + 1)))]
        return tuple(routes)

    @cached_property
    def route_lights(self) -> tuple[tuple[int, ...], ...]:
        """The lights of each route, in order: light j of a route is at the end of its street j."""
        place = np.arange(self.n_lights).reshape(self.rows, self.columns)
        lines = [place[:, c] for c in range(self.columns)] + [place[r] for r in range(self.rows)]
        return tuple(tuple(way.tolist()) for line in lines for way in (line, line[::-1]))

    @cached_property
    def edges(self) -> tuple[str, ...]:
        """Names of the streets, by index: the order of the targets."""
        return tuple(sorted(name for route in self.routes for name in route))

    @cached_property
    def number(self) -> dict[str, int]:
        """Index of each street by name."""
        return {name: e for e, name in enumerate(self.edges)}

    def _numbers(self, names: Iterable[str]) -> list[int]:
        return [self.number[name] for name in names]

    def _at_lights(self, streets: Callable[[int, int], Iterable[str]]) -> np.ndarray:
        return np.array([self._numbers(streets(r, c)) for r in range(self.rows) for c in range(self.columns)])

    @cached_property
    def incoming(self) -> np.ndarray:
        """The streets that lead to each light, from the west, south, east and north: indices of shape ``(n, 4)``."""
        return self._at_lights(lambda r, c: (f"bot{r}_{c}", f"right{r}_{c}", f"top{r}_{c + 1}", f"left{r + 1}_{c}"))

    @cached_property
    def outgoing(self) -> np.ndarray:
        """The streets that lead away from each light, to the west, south, east and north: indices of shape ``(n,
        4)``."""
        return self._at_lights(lambda r, c: (f"top{r}_{c}", f"left{r}_{c}", f"bot{r}_{c + 1}", f"right{r + 1}_{c}"))

    @cached_property
    def neighbours(self) -> np.ndarray:
        """The lights to the north, south, west and east of each light, ``(n, 4)``; −1 if there is none."""
        place = np.pad(np.arange(self.n_lights).reshape(self.rows, self.columns), 1, constant_values=-1)
        around = place[2:, 1:-1], place[:-2, 1:-1], place[1:-1, :-2], place[1:-1, 2:]
        return np.stack([each.ravel() for each in around], axis=1)

    @cached_property
    def adjacency(self) -> np.ndarray:
        """Which lights are connected by a street, booleans ``(n, n)``."""
        joined = np.zeros((self.n_lights, self.n_lights + 1), bool)
        joined[np.arange(self.n_lights)[:, None], self.neighbours] = True  # index −1 is the extra last column
        return joined[:, :-1]

    @cached_property
    def lengths(self) -> np.ndarray:
        """Lengths of the streets in metres, ``(m,)``."""
        lengths = np.full(self.n_edges, INNER)
        lengths[self._numbers(route[0] for route in self.routes)] = ENTRY
        lengths[self._numbers(route[-1] for route in self.routes)] = EXIT
        return lengths

    @cached_property
    def light_of(self) -> np.ndarray:
        """The light at the end of each street or, if it leads out of the grid, at its start: indices, ``(m,)``."""
        light = np.empty(self.n_edges, int)
        light[self.outgoing] = np.arange(self.n_lights)[:, None]
        light[self.incoming] = np.arange(self.n_lights)[:, None]  # overrides the light behind with the light ahead
        return light

    @cached_property
    def identities(self) -> np.ndarray:
        """The identity of each street in observations, in (0, 1], ``(m,)``: Flow's index divided by Flow's count.

        Flow counts 4((C + 1)R + C) streets, which differs from m; this is kept for compatibility.
        """
        R, C = self.rows, self.columns
        numbers = np.empty(self.n_edges)
        for name, e in self.number.items():
            family = name.rstrip("0123456789_")
            i, j = (int(part) for part in name.removeprefix(family).split("_"))
            across = 2 * C * (i + 1 if family in ("bot", "top") else i)
            numbers[e] = 2 * (C + 1) * i + across + 2 * j + 1 + (family in ("right", "top"))
        return numbers / (4 * ((C + 1) * R + C) - 1)

    @cached_property
    def approach_identities(self) -> np.ndarray:
        """Identities of the streets that lead to each light, ``(n, 4, 1)``."""
        return self.identities[self.incoming][..., None]

    @cached_property
    def sorted_by_name(self) -> np.ndarray:
        """The lights in the alphabetical order of their names, ``(n,)``: center10 before center2."""
        return np.array(sorted(range(self.n_lights), key=lambda k: self.lights[k]))
