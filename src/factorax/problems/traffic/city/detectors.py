"""Detectors of the lights: queues, approaching cars, waiting times and speeds on their lanes, and cars that stand
inside the junction.

The detectors of a lane reach `reach` metres back from the stop line: along the lane, and along the lanes before it up
to the previous light. A car on a lane that leads to several lanes of a light counts in equal parts on each.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .roads import Link, Roads

STANDING = 0.1
"""Speed in m/s at or below which cars are queued, as SUMO counts halting cars."""
CARS, SECONDS, INSIDE = 0.1, 0.01, 0.5
"""Units of observations: ten cars, a hundred seconds, and two cars inside a junction."""
OTHERS = 4
"""Number of readings that do not count cars on the lane: waiting, speed, queued ahead, inside the junction."""


class Approach(NamedTuple):
    """Cars that approach lights, an entry for each car and column: parts of a car may count in several columns."""

    column: np.ndarray
    """Number of the light times the number of columns, plus the column."""
    share: np.ndarray
    distance: np.ndarray
    """Metres to the stop line."""
    speed: np.ndarray
    limit: np.ndarray
    """Speed limit where the car is."""
    waiting: np.ndarray


class Cars(NamedTuple):
    """All cars on streets: index of the lane, metres along it, speed, and seconds since the car last moved."""

    lane: np.ndarray
    position: np.ndarray
    speed: np.ndarray
    waiting: np.ndarray
    inside: np.ndarray
    """Origin lanes of cars that stand inside a junction, one entry per car."""
    approach: Approach | None = None
    """Cars by their way through the next light, if detectors know it (`TurnDetectors`)."""
    inside_columns: np.ndarray | None = None
    """Columns of the cars that stand inside a junction, likewise."""


@dataclass(frozen=True, eq=False)
class Detectors:
    """The positions within reach of each detector.

    Rows are lights, columns their lanes, padded to the largest number.
    """

    roads: Roads
    reach: float = 200.0
    zones: int = 3
    extended: bool = True
    """Whether they reach beyond the start of the lane, up to the previous light."""

    @cached_property
    def columns(self) -> tuple[tuple[tuple[Link, ...], ...], ...]:
        """Links of each column of each light: those of a lane."""
        return tuple(
            tuple(tuple(link for link in light.links if link.origin == lane) for lane in light.lanes)
            for light in self.roads.lights
        )

    @cached_property
    def n_lanes(self) -> int:
        """Number of columns: the largest number of lanes of a light."""
        return max(map(len, self.columns))

    @cached_property
    def n_features(self) -> int:
        """Number of readings per lane."""
        return 1 + self.zones + OTHERS

    @cached_property
    def _cells(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return for each lane the index of its first cell and the number of cells, and for each cell its column, the
        metres from the start of the lane to the stop line, and its share: ``(first, many)``, ….

        A lane belongs to no cell, or to one for each lane of a light that it leads to within reach.
        """
        roads, width = self.roads, self.n_lanes
        before = roads.following.T.tocsr()
        after = np.diff(roads.following.indptr)
        controlled = {link.origin for light in roads.lights for link in light.links}
        cells: dict[int, list[tuple[int, float, float]]] = {}
        for i, light in enumerate(roads.lights):
            for j, lane in enumerate(light.lanes):
                waiting_list = [(lane, float(roads.lengths[lane]), 1.0)]
                visited = set()
                while waiting_list:
                    now, metres, share = waiting_list.pop()
                    if now in visited:
                        continue
                    visited.add(now)
                    cells.setdefault(now, []).append((i * width + j, metres, share))
                    if self.extended and metres < self.reach:
                        for earlier in before.indices[before.indptr[now] : before.indptr[now + 1]].tolist():
                            if earlier not in controlled:
                                longer = metres + float(roads.lengths[earlier])
                                waiting_list.append((earlier, longer, share / max(int(after[earlier]), 1)))
        many = np.array([len(cells.get(lane, ())) for lane in range(len(roads.lanes))])
        first = np.cumsum(many) - many
        rows = [cell for lane in range(len(roads.lanes)) for cell in cells.get(lane, ())]
        column, metres, share = (np.array(part) for part in zip(*rows, strict=True))
        return np.stack([first, many]), column.astype(int), metres, share

    @cached_property
    def _ahead(self) -> np.ndarray:
        """Return the weights with which queued cars on lanes behind a light count for each lane that leads to it,
        ``(lights · width, lanes)``."""
        matrix = np.zeros((len(self.roads.lights) * self.n_lanes, len(self.roads.lanes)))
        for i, columns in enumerate(self.columns):
            for j, links in enumerate(columns):
                for link in links:
                    matrix[i * self.n_lanes + j, link.destination] += 1 / len(links)
        return matrix

    @cached_property
    def _ahead_entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        row, lane = self._ahead.nonzero()
        return row, lane, self._ahead[row, lane]

    @cached_property
    def _row_of(self) -> np.ndarray:
        """Return the row of each lane that leads to a light, and the number of rows for other lanes, ``(lanes,)``."""
        rows = np.full(len(self.roads.lanes), len(self.roads.lights) * self.n_lanes)
        for i, light in enumerate(self.roads.lights):
            rows[list(light.lanes)] = i * self.n_lanes + np.arange(len(light.lanes))
        return rows

    def read(self, cars: Cars) -> np.ndarray:
        """Return readings ``(lights, lanes, features)``.

        They are: queued cars, approaching cars in each zone counted from the stop line, seconds that the queued cars
        have waited, mean speed divided by the limit, cars queued on the lanes ahead, and cars from the lane that stand
        inside the junction.

        Cars are in units of ten, seconds of a hundred, cars inside the junction of two. Left turns that wait there for
        the oncoming traffic of two crossing streets block each other permanently, which no other reading can predict.
        """
        size = len(self.roads.lights) * self.n_lanes
        at, weight, distance, speed, limit, waiting = self._approach(cars)
        queued = speed <= STANDING
        out = np.empty((size, self.n_features))
        standing = weight * queued
        out[:, 0] = CARS * np.bincount(at, standing, size)
        zone = np.minimum((distance * (self.zones / self.reach)).astype(int), self.zones - 1)
        moving = np.bincount(at * self.zones + np.maximum(zone, 0), weight * ~queued, size * self.zones)
        out[:, 1 : 1 + self.zones] = CARS * moving.reshape(size, self.zones)
        out[:, -4] = SECONDS * np.bincount(at, standing * waiting, size)
        total = np.bincount(at, weight, size)
        out[:, -3] = np.bincount(at, weight * speed / limit, size) / np.maximum(total, 1e-6)
        row, lane, part = self._ahead_entries
        standing_on = np.bincount(cars.lane, cars.speed <= STANDING, len(self.roads.lanes))
        out[:, -2] = CARS * np.bincount(row, part * standing_on[lane], size)
        out[:, -1] = INSIDE * np.bincount(self._inside(cars), minlength=size + 1)[:size]
        return out.reshape(len(self.roads.lights), self.n_lanes, self.n_features)

    def _approach(self, cars: Cars) -> Approach:
        """Return the cars within reach."""
        (first, many), column, metres, share = self._cells
        of_car = many[cars.lane]
        index = np.repeat(np.arange(len(cars.lane)), of_car)
        start = np.repeat(first[cars.lane] - np.cumsum(of_car) + of_car, of_car)
        cell = start + np.arange(len(index))
        distance = metres[cell] - cars.position[index]
        near = distance <= self.reach
        index, cell, distance = index[near], cell[near], distance[near]
        limit = self.roads.speeds[cars.lane[index]]
        return Approach(column[cell], share[cell], distance, cars.speed[index], limit, cars.waiting[index])

    def _inside(self, cars: Cars) -> np.ndarray:
        """Return the columns of cars that stand inside junctions; the number of columns for junctions without
        lights."""
        return self._row_of[cars.inside]
