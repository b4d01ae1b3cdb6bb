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
    def _cells(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return for each lane the index of its first cell and the number of cells, and for each cell its column, the
        metres from the start of the lane to the stop line, its share and its speed limit: ``(first, many)``, ….

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
        limits = np.repeat(roads.speeds, many)
        return np.stack([first, many]), column.astype(int), metres, share, limits

    @cached_property
    def _is_simple(self) -> bool:
        """Whether no lane has several cells."""
        return bool((self._cells[0][1] <= 1).all())

    @cached_property
    def _cell_of_lane(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return column, metres, share and speed limit of the only cell of each lane, ``(lanes,)``.

        A lane without cells is infinitely far away.
        """
        (_, many), *tables = self._cells
        of_lanes = [np.zeros(len(many), table.dtype) for table in tables]
        of_lanes[1][:] = np.inf
        for of_lane, table in zip(of_lanes, tables, strict=True):
            of_lane[many == 1] = table
        column, metres, share, limits = of_lanes
        return column, metres, share, limits

    @cached_property
    def _columns(self) -> np.ndarray:
        """Return the columns of the sums in `read`: queued, the first zone, waiting, speed, all cars; ``(5, 1)``."""
        return np.array([0, 1, 1 + self.zones, 2 + self.zones, 3 + self.zones])[:, None]

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
        size, zones = len(self.roads.lights) * self.n_lanes, self.zones
        at, weight, distance, speed, limit, waiting = self._approach(cars)
        queued = speed <= STANDING
        # The sums of all readings in one call: queued, approaching in each zone, waiting, speed, all cars.
        part, place = np.empty((5, len(at))), np.empty((5, len(at)), int)
        np.multiply(weight, queued, out=part[0])
        np.multiply(weight, ~queued, out=part[1])
        np.multiply(part[0], waiting, out=part[2])
        np.divide(weight * speed, limit, out=part[3])
        part[4] = weight
        np.add(at * (zones + 4), self._columns, out=place)
        zone = np.minimum((distance * (zones / self.reach)).astype(int), zones - 1)
        place[1] += np.maximum(zone, 0)
        sums = np.bincount(place.ravel(), part.ravel(), size * (zones + 4)).reshape(size, zones + 4)
        out = np.empty((size, self.n_features))
        np.multiply(CARS, sums[:, : 1 + zones], out=out[:, : 1 + zones])
        np.multiply(SECONDS, sums[:, 1 + zones], out=out[:, -4])
        np.divide(sums[:, 2 + zones], np.maximum(sums[:, 3 + zones], 1e-6), out=out[:, -3])
        row, lane, fraction = self._ahead_entries
        standing_on = np.bincount(cars.lane, cars.speed <= STANDING, len(self.roads.lanes))
        out[:, -2] = CARS * np.bincount(row, fraction * standing_on[lane], size)
        out[:, -1] = INSIDE * np.bincount(self._inside(cars), minlength=size + 1)[:size]
        return out.reshape(len(self.roads.lights), self.n_lanes, self.n_features)

    def _approach(self, cars: Cars) -> Approach:
        """Return the cars within reach."""
        if self._is_simple:
            column, metres, share, limits = self._cell_of_lane
            distance = metres[cars.lane] - cars.position
            index = (distance <= self.reach).nonzero()[0]
            cell, distance = cars.lane[index], distance[index]
        else:
            (first, many), column, metres, share, limits = self._cells
            of_car = many[cars.lane]
            index = np.repeat(np.arange(len(cars.lane)), of_car)
            cell = np.repeat(first[cars.lane] - np.cumsum(of_car) + of_car, of_car) + np.arange(len(index))
            distance = metres[cell] - cars.position[index]
            near = distance <= self.reach
            index, cell, distance = index[near], cell[near], distance[near]
        return Approach(column[cell], share[cell], distance, cars.speed[index], limits[cell], cars.waiting[index])

    def _inside(self, cars: Cars) -> np.ndarray:
        """Return the columns of cars that stand inside junctions; the number of columns for junctions without
        lights."""
        return self._row_of[cars.inside]
