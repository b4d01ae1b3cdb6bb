"""Read a SUMO network for signal control: streets, lanes, the links of each light and its green phases."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np
from scipy import sparse

from ..sumo.safe_xml import parse
from .phases import green_phases

VERSIONS = "1"
"""Supported major version of the network format."""


@dataclass(frozen=True)
class Link:
    """A way through a junction that a light controls: from lane to lane, by index."""

    index: int
    """Index of its letter in a phase."""
    origin: int
    destination: int


@dataclass(frozen=True)
class Light:
    """A light with at least two green phases, between which a controller chooses."""

    name: str
    greens: tuple[str, ...]
    """The state of each green phase, one letter per link."""
    links: tuple[Link, ...]
    """Links of cars; pedestrian links are letters of a phase without an entry here."""

    @cached_property
    def lanes(self) -> tuple[int, ...]:
        """Lanes that lead to the light, without repetition, in the order of their links."""
        return tuple(dict.fromkeys(link.origin for link in self.links))

    @cached_property
    def exits(self) -> tuple[int, ...]:
        """Lanes that lead away from it."""
        return tuple(dict.fromkeys(link.destination for link in self.links))


@dataclass(frozen=True, eq=False)
class Roads:
    """Streets, lanes and lights of a ``.net.xml`` file; streets and lanes are indexed in the order of the file."""

    path: Path
    streets: tuple[str, ...]
    lanes: tuple[str, ...]
    street_of: np.ndarray
    """Street index of each lane."""
    lengths: np.ndarray
    """Length of each lane in metres."""
    speeds: np.ndarray
    """Speed limit of each lane in m/s."""
    shapes: tuple[tuple[tuple[float, float], ...], ...]
    """Centre line of each lane, for drawings."""
    following: sparse.csr_array
    """Which lane leads to which, booleans ``(lanes, lanes)``."""
    crossed_from: dict[str, int]
    """Index of the lane from which cars enter each internal lane of a junction."""
    links_inside: dict[str, tuple[int, int]]
    """Light and link index of each internal lane behind a light."""
    lights: tuple[Light, ...]
    uncontrolled: tuple[str, ...]
    """Lights with fewer than two green phases; they follow the programme of the file."""

    @classmethod
    def read(cls, path: Path) -> "Roads":
        """Read a network; a ValueError names the file and the invalid element."""
        root = parse(path, "net")
        version = root.get("version", "")
        if version.partition(".")[0] != VERSIONS:
            raise ValueError(f"{path}: got version {version!r}, want {VERSIONS}.x; convert it with SUMO's netconvert")
        elements = [
            (edge, lane) for edge in root.iter("edge") if edge.get("function") is None for lane in edge.iter("lane")
        ]
        if not elements:
            raise ValueError(f"{path}: has no <edge> with a <lane>, want a network with streets")
        streets = tuple(dict.fromkeys(_attribute(path, edge, "id") for edge, _ in elements))
        lanes = tuple(_attribute(path, lane, "id") for _, lane in elements)
        street, lane_number = ({name: i for i, name in enumerate(names)} for names in (streets, lanes))
        links, following = _connections(path, root, lane_number)
        lights, uncontrolled = _lights(path, root, links)
        return cls(
            path=path,
            streets=streets,
            lanes=lanes,
            street_of=np.array([street[edge.get("id", "")] for edge, _ in elements]),
            lengths=np.array([_number(path, lane, "length") for _, lane in elements]),
            speeds=np.array([_number(path, lane, "speed") for _, lane in elements]),
            shapes=tuple(_shape(path, lane) for _, lane in elements),
            following=following,
            crossed_from=_followed(root, lane_number),
            links_inside=_followed(root, _behind_lights(root, lights)),
            lights=lights,
            uncontrolled=uncontrolled,
        )

    @cached_property
    def next_streets(self) -> sparse.csr_array:
        """Which street leads to which, booleans ``(streets, streets)``."""
        origin, destination = self.following.nonzero()
        shape = len(self.streets), len(self.streets)
        pairs = self.street_of[origin], self.street_of[destination]
        return sparse.csr_array((np.ones(len(origin), bool), pairs), shape)

    @cached_property
    def connected(self) -> frozenset[tuple[int, int]]:
        """Pairs of streets in which the first leads to the second."""
        origin, destination = self.next_streets.nonzero()
        return frozenset(zip(origin.tolist(), destination.tolist(), strict=True))

    @cached_property
    def seconds(self) -> np.ndarray:
        """Free-flow travel time of each street, ``(streets,)``."""
        first = np.unique(self.street_of, return_index=True)[1]
        return self.lengths[first] / self.speeds[first]

    @cached_property
    def n_phases(self) -> tuple[int, ...]:
        """Number of green phases of each light."""
        return tuple(len(light.greens) for light in self.lights)


def _connections(path: Path, root: Xml.Element, lane: dict[str, int]) -> tuple[dict[str, list[Link]], sparse.csr_array]:
    links: dict[str, list[Link]] = {}
    origins, destinations = [], []
    for connection in root.iter("connection"):
        ends = [f"{connection.get(end)}_{connection.get(which)}" for end, which in _ENDS]
        if ends[0] not in lane or ends[1] not in lane:
            continue  # internal edges and pedestrian crossings
        origin, destination = lane[ends[0]], lane[ends[1]]
        origins.append(origin)
        destinations.append(destination)
        if connection.get("tl") is not None:
            index = int(_number(path, connection, "linkIndex"))
            links.setdefault(connection.get("tl", ""), []).append(Link(index, origin, destination))
    shape = len(lane), len(lane)
    return links, sparse.csr_array((np.ones(len(origins), bool), (origins, destinations)), shape)


_ENDS = ("from", "fromLane"), ("to", "toLane")


def _lights(path: Path, root: Xml.Element, links: dict[str, list[Link]]) -> tuple[tuple[Light, ...], tuple[str, ...]]:
    """Return the lights with at least two green phases, and the names of the others.

    If a light has several programmes, the green phases of all of them are choices.
    """
    shown: dict[str, list[str]] = {}
    for logic in root.iter("tlLogic"):
        states = [_attribute(path, phase, "state") for phase in logic.iter("phase")]
        shown.setdefault(_attribute(path, logic, "id"), []).extend(states)
    for name in links:
        if name not in shown:
            raise ValueError(
                f"{path}: a <connection> has tl={name!r}, and there is no <tlLogic id={name!r}>; want a network with "
                "its programmes, as netconvert writes it"
            )
    lights, uncontrolled = [], []
    for name, states in shown.items():
        if name not in links:
            uncontrolled.append(name)
            continue
        last = max(link.index for link in links[name])
        short = next((state for state in states if len(state) <= last), None)
        if short is not None:
            raise ValueError(
                f"{path}: <tlLogic id={name!r}> has a phase {short!r} of {len(short)} letters, and a connection with "
                f"linkIndex={last}; want at least {last + 1} letters"
            )
        greens = green_phases(states)
        if not greens:
            raise ValueError(
                f"{path}: <tlLogic id={name!r}> has no green phase (a state with G or g, and without y); want at least "
                "one; netconvert --tls.rebuild makes new programmes"
            )
        if len(greens) == 1:
            uncontrolled.append(name)
        else:
            lights.append(Light(name, greens, tuple(sorted(links[name], key=lambda link: link.index))))
    if not lights:
        raise ValueError(
            f"{path}: has no light with two or more green phases, want at least one; netconvert --tls.guess adds lights"
        )
    return tuple(lights), tuple(uncontrolled)


def _followed(root: Xml.Element, known: dict[str, Any]) -> dict[str, Any]:
    """Return the values of lanes also for the internal lanes they lead to; a path through a junction may have several
    parts."""
    found = {lane: value for lane, value in known.items() if lane.startswith(":")}
    ways = [(f"{c.get('from')}_{c.get('fromLane')}", c.get("via", "")) for c in root.iter("connection") if c.get("via")]
    for _ in range(3):
        for origin, internal in ways:
            if origin in known or origin in found:
                found.setdefault(internal, known[origin] if origin in known else found[origin])
    return found


def _behind_lights(root: Xml.Element, lights: tuple[Light, ...]) -> dict[str, tuple[int, int]]:
    """Return light and link index of the first internal lane of each link."""
    number = {light.name: i for i, light in enumerate(lights)}
    return {
        c.get("via", ""): (number[c.get("tl", "")], int(c.get("linkIndex", "0")))
        for c in root.iter("connection")
        if c.get("via") and c.get("tl") in number
    }


def _attribute(path: Path, element: Xml.Element, name: str) -> str:
    value = element.get(name)
    if not value:
        raise ValueError(f"{path}: <{element.tag}> {dict(element.attrib)!r:.120} has no {name}, want one")
    return value


def _number(path: Path, element: Xml.Element, name: str) -> float:
    text = _attribute(path, element, name)
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not 0 <= value < np.inf:
        raise ValueError(f"{path}: <{element.tag} id={element.get('id')!r}> has {name}={text!r}, want a number ≥ 0")
    return value


def _shape(path: Path, lane: Xml.Element) -> tuple[tuple[float, float], ...]:
    text = lane.get("shape", "")
    try:
        return tuple((float(x), float(y)) for x, y, *_ in (point.split(",") for point in text.split()))
    except ValueError:
        raise ValueError(
            f"{path}: <lane id={lane.get('id')!r}> has shape={text!r:.80}, want points x,y with spaces between them"
        ) from None
