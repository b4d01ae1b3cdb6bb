"""Read untrusted SUMO files safely: SUMO would write to any file that their elements name.

A network may contain whatever an additional file may, including detectors with output files, and lights and vehicles
may have parameters that name files. Therefore only elements that describe streets, lights and demand are accepted.
"""

import re
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree as Xml
from xml.parsers import expat

from factorax._files import MIB, read_bytes

Root = Literal["net", "routes"]
LARGEST = 256 * MIB
_MOST_ELEMENTS, _MOST_ATTRIBUTES = 4_000_000, 8_000_000
_MOST_NAMES = 1000
"""Different names of attributes in a file; SUMO knows fewer than 500. Each takes much more memory than a value."""
_LONGEST_TAG = MIB
_PIECE = MIB // 16
"""Bytes that are parsed at a time, so that the length of a tag is checked before the whole of it is in memory."""
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
_PROJECTION = re.compile(r"[!.-]|(?:\+(?:{})(?:=[\w.,+-]*)?\s*)+".format(
    "proj|zone|south|ellps|datum|units|to_meter|no_defs|type|wktext|over|axis|pm|towgs84|a|b|es|f|rf|R|k|k_0|"
    "lon_0|lonc|lon_1|lon_2|lat_0|lat_1|lat_2|lat_ts|x_0|y_0|alpha|gamma|approx"
), re.ASCII)  # fmt: skip
"""Projections of coordinates that name no file. PROJ opens those of `init`, `nadgrids`, `grids`, `file` and others."""
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
        for start in range(0, len(data), _PIECE):
            parser.Parse(data[start : start + _PIECE], False)
            if start + _PIECE - max(parser.CurrentByteIndex, 0) > _LONGEST_TAG:
                raise ValueError(f"{path}: has a tag of more than {_LONGEST_TAG:,} bytes, want shorter ones")
        parser.Parse(b"", True)
    except (expat.ExpatError, LookupError) as error:
        raise ValueError(f"{path}: is not valid XML ({error})") from error
    return data


class _Checker:
    """Raises ValueError at the first element that is not known to be harmless."""

    def __init__(self, path: Path, root: Root):
        self.path, self.root = path, root
        self.depth, self.count, self.attributes = 0, 0, 0
        self.names: set[str] = set()

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
        self.attributes += len(attributes)
        self.names.update(attributes)
        if self.attributes > _MOST_ATTRIBUTES or len(self.names) > _MOST_NAMES:
            most = f"{_MOST_ATTRIBUTES:,} attributes with {_MOST_NAMES} different names"
            raise ValueError(f"{self.path}: want at most {most}; cut the network or the demand to the part you need")
        if tag not in _ELEMENTS[self.root] and not (self.root == "routes" and tag.startswith("carFollowing-")):
            self._refuse(f"<{tag}>")
        for name in attributes:
            is_projection = name.rpartition(":")[2] == "projParameter"
            if _LEADS_TO_A_FILE.search(name) or (is_projection and not _PROJECTION.fullmatch(attributes[name])):
                self._refuse(f"{name}={attributes[name][:200]!r} of <{tag}>")
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


def parse(path: Path, root: Root) -> Xml.Element:
    """Return the root element of a file that `read_xml` accepts."""
    data = read_xml(path, root)
    try:
        return Xml.fromstring(data)
    except Xml.ParseError as error:  # namespaces, which `read_xml` does not check
        raise ValueError(f"{path}: is not valid XML ({error})") from error


def copy_checked(path: Path, root: Root, to: Path) -> None:
    """Copy a file that `read_xml` accepts.

    SUMO reads the copy, because it would expand variables in file names and split them at commas.
    """
    to.write_bytes(read_xml(path, root))
