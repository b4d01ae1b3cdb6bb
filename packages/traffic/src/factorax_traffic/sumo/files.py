"""Read the lights, streets and routes of any SUMO network from its files, with error messages that name the file."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Literal, get_args
from xml.etree import ElementTree as Xml

import numpy as np
from scipy import sparse

from factorax.structure import InfluenceNetwork, StructureWarning

from .safe_xml import Root, read_xml

Preset = Literal["in", "incident", "n-level", "corridor", "complete"]


@dataclass(frozen=True, eq=False)
class Streets:
    """The streets and lights of a ``.net.xml`` file, with the routes of a ``.rou.xml`` file."""

    lights: tuple[str, ...]
    edges: tuple[str, ...]
    lengths: np.ndarray
    speed_limit: float
    """The largest speed limit of all streets."""
    incoming: tuple[tuple[int, ...], ...]
    """Indices of the streets that lead to each light."""
    outgoing: tuple[tuple[int, ...], ...]
    approach: dict[str, int]
    """Maps the names of ways through junctions to the index of the street that leads there."""
    phases: tuple[tuple[str, ...], ...]
    """The phases of each light, in order."""
    routes: tuple[tuple[int, ...], ...]
    """Streets of the routes that are listed explicitly."""

    @classmethod
    def read(cls, net: Path, demand: Path) -> "Streets":
        """Read both files; errors name the file and the mistake."""
        root = parse(net, "net")
        if root.get("version", "").partition(".")[0] != "1":
            raise ValueError(f"{net}: got version {root.get('version')!r}, want 1.x; convert it with SUMO's netconvert")
        lanes = {edge.get("id", ""): edge.findall("lane") for edge in root.iter("edge") if not _internal(edge)}
        edges = tuple(name for name, parts in lanes.items() if parts)
        number = {name: e for e, name in enumerate(edges)}
        programs = {logic.get("id", ""): logic for logic in root.iter("tlLogic")}
        links = [c for c in root.iter("connection") if c.get("tl") in programs]
        lights = tuple(name for name in programs if any(c.get("tl") == name for c in links))
        if not lights:
            raise ValueError(
                f"{net}: has no traffic lights that control a street, want at least one; netconvert --tls.guess adds "
                "some"
            )

        def numbers(light: str, end: str) -> tuple[int, ...]:
            edges_at = (number.get(c.get(end, "")) for c in links if c.get("tl") == light)
            return tuple(sorted({e for e in edges_at if e is not None}))

        first = [lanes[name][0] for name in edges]
        following = {(c.get("from"), c.get("to")) for c in root.iter("connection")}
        return cls(
            lights=lights,
            edges=edges,
            lengths=np.array([float(lane.get("length", 1)) for lane in first]),
            speed_limit=max(float(lane.get("speed", 0)) for parts in lanes.values() for lane in parts),
            incoming=tuple(numbers(light, "from") for light in lights),
            outgoing=tuple(numbers(light, "to") for light in lights),
            approach=_approaches(root, number),
            phases=tuple(tuple(phase.get("state", "") for phase in programs[light].iter("phase")) for light in lights),
            routes=_routes(demand, number, following),
        )

    @cached_property
    def hops(self) -> np.ndarray:
        """Minimum number of streets between two lights in either direction, ``(n, n)``; infinite if there is no
        path."""
        from scipy.sparse.csgraph import dijkstra

        n = len(self.lights)
        next_to = np.zeros((n, n), bool)
        for i, out in enumerate(self.outgoing):
            for j, into in enumerate(self.incoming):
                next_to[i, j] = bool(set(out) & set(into))
        return dijkstra(sparse.csr_array(next_to | next_to.T), unweighted=True)

    def influence(self, preset: Preset = "incident", *, n: int = 0) -> InfluenceNetwork:
        """Return the network from lights to streets, with the presets of grids, computed from the graph of the streets.

        ``"n-level"``: the incident streets of all lights at most `n` streets away. ``"corridor"``: all streets of the
        routes that pass a light, which must be listed explicitly in the file of routes.
        """
        if preset not in get_args(Preset):
            raise ValueError(f"network: got {preset!r}, want one of {', '.join(get_args(Preset))}")
        shape = len(self.lights), len(self.edges)
        if preset == "complete":
            return InfluenceNetwork.complete(*shape).relabel(self.lights, self.edges)
        matrix = np.zeros(shape, bool)
        for i in range(shape[0]):
            near = np.flatnonzero(self.hops[i] <= n) if preset == "n-level" else [i]
            for k in near:
                matrix[i, list(self.incoming[k])] = True
                if preset != "in":
                    matrix[i, list(self.outgoing[k])] = True
            if preset == "corridor":
                for route in self.routes:
                    if set(route) & set(self.incoming[i]):
                        matrix[i, list(route)] = True
        if preset == "corridor" and not self.routes:
            raise ValueError(
                "preset: got 'corridor', but the file lists no routes; want <route edges=…>, or another preset"
            )
        with warnings.catch_warnings():
            if preset == "in":  # this preset omits streets on purpose
                warnings.simplefilter("ignore", StructureWarning)
            return InfluenceNetwork(sparse.csr_array(matrix), self.lights, self.edges)


def parse(path: Path, root: Root) -> Xml.Element:
    """Return the root element of a file that `read_xml` accepts."""
    data = read_xml(path, root)
    try:
        return Xml.fromstring(data)
    except Xml.ParseError as error:  # namespaces, which `read_xml` does not check
        raise ValueError(f"{path}: is not valid XML ({error})") from error


def _internal(edge: Xml.Element) -> bool:
    return edge.get("function") in ("internal", "walkingarea", "crossing", "connector")


def _approaches(root: Xml.Element, number: dict[str, int]) -> dict[str, int]:
    """Return ways through junctions by the street that leads there; a way may have several parts."""
    approach: dict[str, int] = {}
    parts = [(c.get("from", ""), c.get("via", "").rpartition("_")[0]) for c in root.iter("connection") if c.get("via")]
    for _ in range(3):
        for start, way in parts:
            if start in number or start in approach:
                approach.setdefault(way, number[start] if start in number else approach[start])
    return approach


def _routes(path: Path, number: dict[str, int], following: set) -> tuple[tuple[int, ...], ...]:
    routes = []
    for route in parse(path, "routes").iter("route"):
        names = route.get("edges", "").split()
        which = f"{path}: route {route.get('id', 'of a vehicle')!r}"
        unknown = [name for name in names if name not in number]
        if unknown:
            raise ValueError(f"{which} has the street {unknown[0]!r}, which is not in the network")
        for a, b in pairwise(names):
            if (a, b) not in following:
                raise ValueError(f"{which} goes from {a!r} to {b!r}, which are not connected")
        routes.append(tuple(number[name] for name in names))
    return tuple(routes)
