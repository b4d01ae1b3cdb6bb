"""Influence networks of lights over streets, from the road network and the routes of the demand."""

import re
import warnings
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from factorax.structure import BaseNetwork, InfluenceNetwork, LaggedNetwork, StructureWarning

from .demand import Demand
from .roads import Roads

Preset = Literal[
    "in", "incident", "section", "n-level", "upstream", "downstream", "reach", "corridor", "lagged", "complete"
]


def influence(
    roads: Roads,
    demand: Demand,
    preset: str = "incident",
    *,
    n: int = 0,
    targets: Literal["street", "lane"] = "street",
    travel_time: float = 30.0,
    interval: float = 10.0,
) -> BaseNetwork:
    """Return the network from lights to delays on streets.

    - ``"in"``: the streets that lead to the light. ``"incident"``: those, and the streets that lead away from it.
    - ``"section"``: the streets of ``"reach"`` between the light and its neighbours: cars travel between them and the
      light without passing another one. Maps divide streets into many: this is the counterpart of ``"incident"``.
    - ``"n-level"``: the incident streets of all lights at most `n` streets away; also ``"1-level"``, ….
    - ``"upstream"``: incident streets, and those from which a car can reach the light within `travel_time` seconds of
      free flow: growing queues hold their cars back.
    - ``"downstream"``: incident streets, and those that routes of the demand reach within `travel_time` after it.
    - ``"reach"``: both of these. ``"corridor"``: all streets of all routes that pass the light.
    - ``"lagged"``: ``"reach"`` as a `LaggedNetwork`, in which each street starts at the first decision after which a
      car can have arrived there.
    - ``"complete"``: all streets, the global reward.
    """
    level = re.fullmatch(r"(\d+)-level", preset)
    if level:
        preset, n = "n-level", int(level.group(1))
    if preset not in get_args(Preset):
        raise ValueError(f"network: got {preset!r}, want one of {', '.join(get_args(Preset))}")
    if not travel_time >= 0:
        raise ValueError(f"travel_time: got {travel_time!r}, want seconds, at least 0")
    names = [light.name for light in roads.lights]
    of_lane = roads.street_of if targets == "lane" else np.arange(len(roads.streets))
    labels = roads.lanes if targets == "lane" else roads.streets
    if preset == "complete":
        return InfluenceNetwork.complete(len(names), len(labels)).relabel(names, labels)
    lags = _lags(roads, demand, preset, n, travel_time, interval)[:, of_lane]
    if preset == "lagged":
        return LaggedNetwork.from_lags(lags, names, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StructureWarning)  # streets that no light influences are expected
        return InfluenceNetwork(sparse.csr_array(lags >= 0), names, labels)


def _lags(roads: Roads, demand: Demand, preset: str, n: int, travel_time: float, interval: float) -> np.ndarray:
    """Return the decisions until a light can have changed the delay on a street, ``(lights, streets)``; −1 for
    never."""
    into = [sorted({int(roads.street_of[lane]) for lane in light.lanes}) for light in roads.lights]
    out = [sorted({int(roads.street_of[lane]) for lane in light.exits}) for light in roads.lights]
    lags = np.full((len(roads.lights), len(roads.streets)), -1)
    for i in range(len(roads.lights)):
        if preset != "in":
            lags[i, out[i]] = 0
        lags[i, into[i]] = 0
    if preset == "section":
        near = _lags(roads, demand, "reach", n, travel_time, interval) >= 0
        return np.where(near & _sections(roads, into, out), 0, -1)
    if preset == "n-level":
        near = _hops(into, out) <= n
        return np.where((near.astype(int) @ (lags >= 0)) > 0, 0, -1)
    if preset in ("upstream", "reach", "lagged"):
        seconds = upstream_seconds(roads, into)
        lags = _merged(lags, seconds, travel_time, lambda time: time // interval)
    if preset in ("downstream", "reach", "lagged"):
        seconds = downstream_seconds(roads, demand, into)
        lags = _merged(lags, seconds, travel_time, lambda time: time // interval)
    if preset == "corridor":
        lags = _merged(lags, downstream_seconds(roads, demand, into, whole=True), np.inf, np.zeros_like)
    return lags


def _merged(
    lags: np.ndarray, seconds: np.ndarray, travel_time: float, rounded: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    new = (seconds <= travel_time) & np.isfinite(seconds) & (lags < 0)
    return np.where(new, rounded(np.where(new, seconds, 0)), lags).astype(int)


def _sections(roads: Roads, into: list[list[int]], out: list[list[int]]) -> np.ndarray:
    """Return the streets between each light and its neighbours, booleans ``(lights, streets)``."""
    controlled = {street for streets in into for street in streets}
    after = roads.next_streets
    before = after.T.tocsr()
    reached = np.zeros((len(into), len(roads.streets)), bool)
    for i in range(len(into)):
        for first, following, is_end in (
            (into[i], before, lambda street, i=i: street in controlled and street not in into[i]),
            (out[i], after, lambda street: False),
        ):
            left = list(first)
            visited = set(first)
            while left:
                street = left.pop()
                reached[i, street] = True
                if following is after and street in controlled:
                    continue  # this street leads to the next light
                for other in following.indices[following.indptr[street] : following.indptr[street + 1]].tolist():
                    if other not in visited and not is_end(other):
                        visited.add(other)
                        left.append(other)
    return reached


def upstream_seconds(roads: Roads, into: list[list[int]]) -> np.ndarray:
    """Return free-flow seconds from the end of each street to the nearest approach of each light, ``(lights,
    streets)``."""
    origin, destination = roads.next_streets.nonzero()
    shape = roads.next_streets.shape
    # Backwards: from a street to the one before it, through the length of the street itself.
    back = sparse.csr_array((np.maximum(roads.seconds[destination], 1e-9), (destination, origin)), shape)
    return np.stack([dijkstra(back, indices=streets, min_only=True) for streets in into])


def downstream_seconds(roads: Roads, demand: Demand, into: list[list[int]], *, whole: bool = False) -> np.ndarray:
    """Return free-flow seconds from each light to the start of later streets on routes of the demand.

    With `whole`, 0 for each street of a route that passes the light.
    """
    at = {street: i for i, streets in enumerate(into) for street in streets}
    seconds = np.full((len(into), len(roads.streets)), np.inf)
    for route in demand.routes:
        starts = np.cumsum([0.0, *roads.seconds[list(route)]])
        for k, street in enumerate(route):
            if street not in at:
                continue
            i = at[street]
            if whole:
                seconds[i, list(route)] = 0.0
            else:
                later = list(route[k + 1 :])
                seconds[i, later] = np.minimum(seconds[i, later], starts[k + 1 : -1] - starts[k + 1])
    return seconds


def _hops(into: list[list[int]], out: list[list[int]]) -> np.ndarray:
    """Return the minimum number of streets between two lights in either direction, ``(lights, lights)``."""
    joined = np.array([[bool(set(a) & set(b)) for b in into] for a in out])
    return dijkstra(sparse.csr_array(joined | joined.T), unweighted=True)
