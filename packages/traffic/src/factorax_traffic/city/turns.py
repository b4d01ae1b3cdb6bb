"""Detectors that know where cars turn: cars count by their way through the next light, not by their lane.

A lane often serves several directions with different phases. Cars announce theirs with indicators, or report it; the
detectors of RESCO do not have this information.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from .detectors import Approach, Cars, Detectors
from .roads import Link, Roads

Way = list[tuple[tuple[int, float, float], ...]]
"""For each street of a route: columns at the next light, metres from the start of the street to the stop line, and
shares."""


class TurnDetectors(Detectors):
    """Detectors with a column for each link of a light.

    A car counts at the next light of its route only. On a lane without the link to its next street, it counts in equal
    parts on all links between the two streets. Cars inside a junction count at the start of the next street.
    """

    @cached_property
    def columns(self) -> tuple[tuple[tuple[Link, ...], ...], ...]:
        """Links of each column of each light: a single one."""
        return tuple(tuple((link,) for link in light.links) for light in self.roads.lights)

    @cached_property
    def column_of(self) -> dict[tuple[int, int], int]:
        """Column of each link, by the number of the light and the index of the link."""
        return {
            (i, link.index): i * self.n_lanes + j
            for i, light in enumerate(self.roads.lights)
            for j, link in enumerate(light.links)
        }

    def _approach(self, cars: Cars) -> Approach:
        assert cars.approach is not None
        return cars.approach

    def _inside(self, cars: Cars) -> np.ndarray:
        assert cars.inside_columns is not None
        return cars.inside_columns


class Turns:
    """The routes of all cars of an episode, and the columns of `TurnDetectors` in which each counts."""

    def __init__(self, detectors: TurnDetectors):
        self.detectors, self.roads = detectors, detectors.roads
        self._links = _links_between(self.roads, detectors)
        self._street = {name: i for i, name in enumerate(self.roads.streets)}
        self._street_of: list[int] = self.roads.street_of.tolist()
        self._metres: list[float] = [0.0] * len(self.roads.streets)
        for lane, street in enumerate(self._street_of):
            self._metres[street] = float(self.roads.lengths[lane])
        self._limits: list[float] = self.roads.speeds.tolist()
        self._ways: dict[tuple[str, ...], tuple[list[int], Way]] = {}
        self.reset()

    def reset(self) -> None:
        """Forget all cars, at the start of an episode."""
        self._cars: dict[str, list] = {}

    def approach(
        self,
        names: Sequence[str],
        numbers: Sequence[int],
        position: np.ndarray,
        speed: np.ndarray,
        waiting: np.ndarray,
        route: Callable[[str], tuple[str, ...]],
    ) -> Approach:
        """Return where cars count.

        - `numbers`: lane of each car, plus the number of lanes inside the junction behind it; −1 if unknown.
        - `route`: function from the name of a car to its streets, called once per car.
        """
        count, reach, lanes, links = len(self.roads.lanes), self.detectors.reach, self._street_of, self._links
        rows: list[tuple[int, float, float, int, float]] = []
        known = self._cars
        for k, (name, number, metres) in enumerate(zip(names, numbers, position.tolist(), strict=True)):
            if number < 0:
                continue
            car = known.get(name)
            if car is None:
                car = known[name] = [*self._way(route(name)), 0]
            streets, way, at = car
            crossing = number >= count
            street = lanes[number - count if crossing else number]
            if at >= len(streets) or streets[at] != street:
                try:
                    at = car[2] = streets.index(street, at)
                except ValueError:
                    continue  # it was given another route
            lane = -1 if crossing else number
            at += crossing
            if at >= len(way):
                continue
            limit = self._limits[number - count if crossing else number]
            cells = way[at]
            if not crossing and len(cells) > 1 and at + 1 < len(streets):
                own = links.get((street, streets[at + 1]))
                if own is not None and lane in own[1]:
                    cells = own[1][lane]
            for column, whole, share in cells:
                distance = whole if crossing else whole - metres
                if distance <= reach:
                    rows.append((column, share, distance, k, limit))
        if not rows:
            none = np.zeros(0)
            return Approach(none.astype(int), none, none, none, none, none)
        column, share, distance, car, limit = zip(*rows, strict=True)
        index = np.array(car)
        return Approach(
            np.array(column), np.array(share), np.array(distance), speed[index], np.array(limit), waiting[index]
        )

    def _way(self, route: tuple[str, ...]) -> tuple[list[int], Way]:
        found = self._ways.get(route)
        if found is None:
            streets = [self._street.get(name, -1) for name in route]
            way: Way = []
            for at in range(len(streets)):
                metres, cells = 0.0, ()
                for here, after in zip(streets[at:], streets[at + 1 :], strict=False):
                    before_here = metres
                    metres += self._metres[here]
                    if (here, after) in self._links:
                        cells = tuple((column, metres, share) for column, share in self._links[here, after][0])
                        break
                    if before_here > self.detectors.reach:
                        break
                way.append(cells)
            found = self._ways[route] = (streets, way)
        return found


def _links_between(
    roads: Roads, detectors: TurnDetectors
) -> dict[tuple[int, int], tuple[list[tuple[int, float]], dict[int, tuple[tuple[int, float, float], ...]]]]:
    """Return the columns and shares of the links between two streets, and the cells of cars on their lanes."""
    links: dict[tuple[int, int], list[tuple[int, Link]]] = {}
    for i, light in enumerate(roads.lights):
        for j, link in enumerate(light.links):
            pair = int(roads.street_of[link.origin]), int(roads.street_of[link.destination])
            links.setdefault(pair, []).append((i * detectors.n_lanes + j, link))
    found = {}
    for pair, group in links.items():
        of_lane: dict[int, list[int]] = {}
        for column, link in group:
            of_lane.setdefault(link.origin, []).append(column)
        cells = {
            lane: tuple((column, float(roads.lengths[lane]), 1 / len(columns)) for column in columns)
            for lane, columns in of_lane.items()
        }
        found[pair] = [(column, 1 / len(group)) for column, _ in group], cells
    return found
