"""Read the demand of a SUMO file of routes: departures of trips and their streets."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as Xml

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from ..sumo.safe_xml import parse
from .roads import Roads

_TRIPS = ("vehicle", "trip", "flow")


@dataclass(frozen=True, eq=False)
class Demand:
    """Trips of a ``.rou.xml`` file."""

    path: Path
    departures: np.ndarray
    """Second at which each trip wants to depart; for flows, their start, ``(trips,)``."""
    ends: np.ndarray
    """Second of the last departure: the same, or the end of a flow, ``(trips,)``."""
    routes: tuple[tuple[int, ...], ...]
    """Streets of the distinct routes; for trips with only two ends, the fastest route in free flow."""
    route_counts: np.ndarray
    """Number of cars on each route."""

    @classmethod
    def read(cls, path: Path, roads: Roads) -> "Demand":
        """Read the demand; a ValueError names the file and the invalid trip."""
        root = parse(path, "routes")
        street = {name: i for i, name in enumerate(roads.streets)}
        named = {route.get("id", ""): route for route in root.findall("route")}
        counts: dict[tuple[int, ...], float] = {}
        between: dict[tuple[int, int], float] = {}
        departures, ends = [], []
        for trip in root:
            if trip.tag not in _TRIPS:
                continue
            where = f"{path}: <{trip.tag} id={trip.get('id')!r}>"
            departures.append(_departure(where, trip))
            cars, end = _flow(where, trip) if trip.tag == "flow" else (1.0, departures[-1])
            ends.append(end)
            route = trip.find("route")
            if route is None and trip.get("route") in named:
                route = named[trip.get("route", "")]
            if route is not None:
                numbers = _streets(where, route.get("edges", "").split(), street, roads)
                counts[numbers] = counts.get(numbers, 0) + cars
            elif trip.get("from") and trip.get("to"):
                via = trip.get("via", "").split()
                stops = _numbers(where, [trip.get("from", ""), *via, trip.get("to", "")], street, roads)
                for pair in pairwise(stops):
                    between[pair] = between.get(pair, 0) + cars
            elif trip.get("route") is not None and root.find(f"routeDistribution[@id={trip.get('route')!r}]") is None:
                raise ValueError(f"{where} has route={trip.get('route')!r}, but there is no <route> with this id")
        if not departures:
            raise ValueError(f"{path}: has no <vehicle>, <trip> or <flow>, and therefore no demand; want at least one")
        for route, count in _fastest(path, between, roads).items():
            counts[route] = counts.get(route, 0) + count
        return cls(path, np.array(departures), np.array(ends), tuple(counts), np.array(list(counts.values())))

    def check_window(self, begin: float, end: float) -> None:
        """Raise ValueError if no trip departs between `begin` and `end`."""
        if not ((self.departures < end) & (self.ends >= begin)).any():
            first, last = self.departures.min(), self.ends.max()
            raise ValueError(
                f"{self.path}: no trip departs from second {begin:g} to {end:g}: departures are from {first:g} to "
                f"{last:g}; want begin={int(first)} or another horizon"
            )


def _departure(where: str, trip: Xml.Element) -> float:
    text = trip.get("depart", trip.get("begin", "0"))
    if text == "triggered":
        return 0.0
    parts = text.split(":")
    try:
        value = sum(float(part) * 60**i for i, part in enumerate(reversed(parts)))
    except ValueError:
        raise ValueError(f"{where} has depart={text!r}, want a second") from None
    return value


def _flow(where: str, flow: Xml.Element) -> tuple[float, float]:
    """Return the number of cars of a flow, and its end."""
    try:
        end = float(flow.get("end", 86400))
        length = end - float(flow.get("begin", 0))
        if flow.get("number") is not None:
            return float(flow.get("number", 0)), end
        if flow.get("probability") is not None:
            return length * float(flow.get("probability", 0)), end
        period = flow.get("period", "")
        if period.startswith("exp("):
            return length * float(period[4:].rstrip(")")), end
        if period:
            return length / float(period), end
        return length / 3600 * float(flow.get("vehsPerHour", flow.get("perHour", 0))), end
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{where}: its begin, end and rate must be numbers, and the period more than 0") from None


def _numbers(where: str, names: list[str], street: dict[str, int], roads: Roads) -> tuple[int, ...]:
    for name in names:
        if name not in street:
            raise ValueError(
                f"{where} uses the street {name!r}, which {roads.path.name} does not have; want routes for this network"
            )
    return tuple(street[name] for name in names)


def _streets(where: str, names: list[str], street: dict[str, int], roads: Roads) -> tuple[int, ...]:
    numbers = _numbers(where, names, street, roads)
    for a, b in pairwise(numbers):
        if (a, b) not in roads.connected:
            raise ValueError(
                f"{where} goes from {roads.streets[a]!r} to {roads.streets[b]!r}, which {roads.path.name} does not "
                "connect"
            )
    return numbers


def _fastest(path: Path, between: dict[tuple[int, int], float], roads: Roads) -> dict[tuple[int, ...], float]:
    """Return the fastest route in free flow between each pair of ends."""
    if not between:
        return {}
    origin, destination = roads.next_streets.nonzero()
    times = csr_array((roads.seconds[destination], (origin, destination)), roads.next_streets.shape)
    starts = sorted({a for a, _ in between})
    _, before = dijkstra(times, indices=starts, return_predecessors=True)
    row = {a: i for i, a in enumerate(starts)}
    routes: dict[tuple[int, ...], float] = {}
    for (a, b), count in between.items():
        route = [b]
        while route[-1] != a:
            previous = int(before[row[a], route[-1]])
            if previous < 0:
                raise ValueError(
                    f"{path}: a trip goes from {roads.streets[a]!r} to {roads.streets[b]!r}, and "
                    f"{roads.path.name} has no way there"
                )
            route.append(previous)
        key = tuple(reversed(route))
        routes[key] = routes.get(key, 0) + count
    return routes
