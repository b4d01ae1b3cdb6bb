"""Read untrusted SUMO files safely: SUMO would write to any file that their elements name.

A network may contain whatever an additional file may, including detectors with output files, and lights and vehicles
may have parameters that name files. Therefore only elements that describe streets, lights and demand are accepted.
"""

import re
from pathlib import Path
from typing import Any, Literal
from xml.parsers import expat

from factorax._files import MIB, read_bytes

Root = Literal["net", "routes"]
LARGEST = 256 * MIB
_MOST_ELEMENTS = 4_000_000
_DEEPEST = 32
_ENCODINGS = ("utf-8", "us-ascii", "iso-8859-1")
"""Encodings that SUMO's parser and Python's read in the same way."""
_STREETS = (
    "net location type laneType restriction meso edge lane neigh stopOffset junction request connection prohibition "
    "conflict roundabout tlLogic phase condition assignment function taz tazSource tazSink param"
)
_DEMAND = (
    "routes vType vTypeDistribution route routeDistribution route-alternatives vehicle trip flow interval stop person "
    "personFlow personTrip walk ride container containerFlow transport tranship param"
)
_ELEMENTS = {"net": frozenset(_STREETS.split()), "routes": frozenset(_DEMAND.split())}
_PROGRAMS = ("static", "actuated", "delay_based", "NEMA", "off", "rail_signal", "rail_crossing")
"""Allowed types of lights; others write logs."""
_EQUIPMENT = (
    "battery bluelight btreceiver btsender driverstate elechybrid emissions fcd friction glosa rerouting routing "
    "stationfinder taxi tripinfo vehroute"
)
"""Allowed devices of vehicles, which read and write no files of their own."""
_LEADS_TO_A_FILE = re.compile("file|output|dest$|href|path", re.IGNORECASE)
_DEVICE = re.compile(r"(?:person-)?(?:has|device)\.([^.]*)", re.IGNORECASE)


def read_xml(path: Path, root: Root) -> bytes:
    """Return the content of a network or a file of routes; raise ValueError for elements that do not belong there."""
    try:
        data = read_bytes(path, LARGEST)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file") from None
    if data.startswith(b"\x1f\x8b"):
        raise ValueError(f"{path}: is compressed, want plain XML; unpack it with gunzip")
    parser = expat.ParserCreate()
    parser.buffer_text = True
    checker = _Checker(path, root)
    parser.XmlDeclHandler = checker.declaration
    parser.StartDoctypeDeclHandler = checker.doctype
    parser.StartElementHandler = checker.start
    parser.EndElementHandler = checker.end
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, LookupError) as error:
        raise ValueError(f"{path}: is not valid XML ({error})") from error
    return data


class _Checker:
    """Raises ValueError at the first element that is not known to be harmless."""

    def __init__(self, path: Path, root: Root):
        self.path, self.root = path, root
        self.depth, self.count = 0, 0

    def declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        if encoding is not None and encoding.lower() not in _ENCODINGS:
            raise ValueError(f"{self.path}: got the encoding {encoding!r}, want UTF-8")

    def doctype(self, *declaration: Any) -> None:
        raise ValueError(f"{self.path}: has a DOCTYPE, which SUMO files do not need; remove it")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self.count and tag != self.root:
            raise ValueError(f"{self.path}: got <{tag}>, want a SUMO file that begins with <{self.root}>")
        self.depth, self.count = self.depth + 1, self.count + 1
        if self.depth > _DEEPEST or self.count > _MOST_ELEMENTS:
            raise ValueError(f"{self.path}: want at most {_MOST_ELEMENTS:,} elements, nested {_DEEPEST} deep")
        if tag not in _ELEMENTS[self.root] and not (self.root == "routes" and tag.startswith("carFollowing-")):
            self._refuse(f"<{tag}>")
        for name in attributes:
            if _LEADS_TO_A_FILE.search(name):
                self._refuse(f"{name}={attributes[name]!r} of <{tag}>")
        if tag == "param":
            self._check_parameter(attributes.get("key", ""))
        if tag == "tlLogic" and attributes.get("type", "static") not in _PROGRAMS:
            self._refuse(f"<tlLogic type={attributes['type']!r}>")

    def end(self, tag: str) -> None:
        self.depth -= 1

    def _check_parameter(self, key: str) -> None:
        device = _DEVICE.match(key.strip())
        if _LEADS_TO_A_FILE.search(key) or (device and device.group(1).lower() not in _EQUIPMENT.split()):
            self._refuse(f"<param key={key!r}>")

    def _refuse(self, what: str) -> None:
        kind = "streets and lights" if self.root == "net" else "vehicles and routes"
        raise ValueError(
            f"{self.path}: has {what}, which may make SUMO read or write other files; want only {kind}, so remove it"
        )


def copy_checked(path: Path, root: Root, to: Path) -> None:
    """Copy a file that `read_xml` accepts.

    SUMO reads the copy, because it would expand variables in file names and split them at commas.
    """
    to.write_bytes(read_xml(path, root))
