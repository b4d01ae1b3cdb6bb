"""The grid from above: positions of streets, stop lines and cars, and the streets that a light influences."""

import re
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from factorax.structure import InfluenceNetwork

from .grid import ENTRY, EXIT, JUNCTION, Grid
from .lane_simulator import SECTION
from .signals import Signals, green_and_yellow

LANE_OFFSET = 11.0
"""Distance of lanes from the middle of their street in metres; exaggerated, to be visible."""
GREEN, YELLOW, RED = "#009E73", "#F0C419", "#D55E00"
SIGNAL_COLOURS = np.array([RED, YELLOW, GREEN])


def layout(problem: str, network: InfluenceNetwork) -> dict[str, Any] | None:
    """Return where reports draw the lights and streets of a grid; None for other problems and targets."""
    match = re.fullmatch(r"(?:traffic|sumo):(\d{1,3})x(\d{1,3})(?:,.*)?", problem)
    if match is None:
        return None
    grid = Grid(*map(int, match.groups()))
    if (grid.n_lights, grid.n_edges) != network.shape or network.targets != grid.edges:
        return None
    places = [divmod(light, grid.columns) for light in range(grid.n_lights)]
    return {
        "actions": [[round(SECTION * column), round(-SECTION * row)] for row, column in places],
        "targets": [[[round(x), round(-y)] for x, y in street] for street in Ways(grid).edges.tolist()],
    }


def draw_influence(ax: Axes, grid: Grid, net: InfluenceNetwork, light: int) -> None:
    """Draw the streets of a grid, with those that a light influences in blue, darker for stronger influence."""
    ways = Ways(grid)
    weight = np.asarray(net.to_dense()[light], float)
    blue, grey = np.array([0.0, 0.45, 0.70]), np.array([0.87, 0.87, 0.87])
    colours = weight[:, None] * blue + (1 - weight[:, None]) * grey
    ax.add_collection(LineCollection(list(ways.edges), colors=list(colours), linewidths=3, capstyle="butt"))
    row, column = divmod(light, grid.columns)
    ax.plot(SECTION * column, SECTION * row, "o", color=RED, markersize=7)
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.autoscale()


class Ways:
    """Positions in the plane in metres, with the light in the south-west at the origin."""

    def __init__(self, grid: Grid):
        self.grid = grid
        start, ahead, lights = [], [], []
        for i, passed in enumerate(grid.route_lights):
            ns, back = i < 2 * grid.columns, i % 2
            along = np.array([0.0, 1.0] if ns else [1.0, 0.0]) * (-1 if back else 1)
            right = np.array([along[1], -along[0]])
            row, column = divmod(passed[0], grid.columns)
            first = SECTION * np.array([column, row], float)
            start.append(first - (ENTRY + JUNCTION / 2) * along + LANE_OFFSET * right)
            ahead.append(along)
            lights.append(len(passed))
        self.start, self.ahead = np.array(start), np.array(ahead)  # start and direction of each route, (L, 2)
        ends = self.start + (SECTION * np.array(lights) + EXIT)[:, None] * self.ahead
        self.streets = np.stack([self.start, ends], axis=1)
        self.edges = np.empty((grid.n_edges, 2, 2))  # both ends of each street
        for i, names in enumerate(grid.routes):
            for j, name in enumerate(names):
                begin = SECTION * j + np.array([0.0, grid.lengths[grid.number[name]]])
                self.edges[grid.number[name]] = self.start[i] + begin[:, None] * self.ahead[i]
        self.route = np.repeat(np.arange(grid.n_routes), lights)
        self.light = np.concatenate([np.array(passed) for passed in grid.route_lights])
        within = np.concatenate([np.arange(n) for n in lights])
        middle = self.start[self.route] + (SECTION * within + ENTRY)[:, None] * self.ahead[self.route]
        across = 0.9 * LANE_OFFSET * self.ahead[self.route][:, ::-1]
        self.stop_lines = np.stack([middle - across, middle + across], axis=1)

    @property
    def extent(self) -> tuple[float, float]:
        """Width and height of the grid in metres."""
        width, height = np.ptp(self.streets.reshape(-1, 2), axis=0)
        return float(width), float(height)

    def where(self, section: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Return the positions ``(S, L, 2)`` of the cars, given their sections and places ``(S, L)``."""
        return self.start + (SECTION * section + place)[..., None] * self.ahead

    def signal_codes(self, signals: np.ndarray) -> np.ndarray:
        """Return the colour of each stop line, 0 for red, 1 for yellow, 2 for green, given direction, yellow and since
        of the lights, ``(3, n)``."""
        axis = (self.route >= 2 * self.grid.columns).astype(int)
        green, yellow = green_and_yellow(Signals(*(x[self.light] for x in signals)), axis)
        return np.where(green, 2, np.where(yellow, 1, 0)).astype(np.uint8)
