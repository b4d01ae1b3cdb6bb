"""The grid as SUMO files: streets, created by netconvert and cached between runs, and demand."""

import os
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as Xml

from ..grid import ENTRY, EXIT, INNER, SPEED_LIMIT, STANDING_AT, STANDING_BETWEEN, Grid
from ..settings import Traffic

MISSING = (
    "SUMO is not installed: pip install 'factorax-traffic[sumo]'. The lane simulator, factorax_traffic.lanes, "
    "is equivalent and needs no other package"
)
CAR = {
    "id": "human",
    "carFollowModel": "IDM",
    "accel": "2.6",
    "decel": "7.5",
    "tau": "1.0",
    "minGap": "2.5",
    "maxSpeed": "30",
    "sigma": "0.5",
    "speedFactor": "1.0",
    "impatience": "0.5",
    "laneChangeModel": "LC2013",
}


def program(name: str) -> str:
    """Return the path of a SUMO program: from the package eclipse-sumo, from $SUMO_HOME, or from the shell's path."""
    folders = [os.environ["SUMO_HOME"]] if "SUMO_HOME" in os.environ else []
    if (package := find_spec("sumo")) is not None and package.origin:
        folders.insert(0, str(Path(package.origin).parent))
    installed = [path for folder in folders if (path := Path(folder) / "bin" / name).exists()]
    if installed or (path := shutil.which(name)):
        return str(installed[0] if installed else path)
    raise ImportError(MISSING)


def _cache() -> Path:
    """Return the cache folder of streets for the installed version of SUMO."""
    try:
        from libsumo import __version__ as version  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ImportError(MISSING) from None
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "factorax" / f"sumo-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def build(grid: Grid) -> Path:
    """Return the streets of a grid as a cached .net.xml file."""
    path = _cache() / f"grid-{grid.rows}x{grid.columns}.net.xml"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            temporary = Path(folder) / path.name
            netconvert(_plain(grid, Path(folder)), temporary)
            os.replace(temporary, path)
    return path


def netconvert(arguments: list[str], out: Path) -> None:
    """Run SUMO's netconvert."""
    command = [
        program("netconvert"),
        *arguments,
        "--no-turnarounds",
        "true",
        "--no-warnings",
        "--output-file",
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not out.exists():
        raise RuntimeError(f"netconvert failed: {done.stderr.strip() or done.stdout.strip()}")


def _plain(grid: Grid, folder: Path) -> list[str]:
    """Write nodes, edges and connections in the input format of netconvert."""
    R, C = grid.rows, grid.columns
    nodes, edges, connections = Xml.Element("nodes"), Xml.Element("edges"), Xml.Element("connections")

    def node(name: str, x: float, y: float, **more: str) -> None:
        Xml.SubElement(nodes, "node", {"id": name, "x": str(x), "y": str(y), "type": "priority"} | more)

    for k, name in enumerate(grid.lights):
        r, c = divmod(k, C)
        node(name, INNER * c, INNER * r, type="traffic_light", radius="6.2")
    for c in range(C):
        for side, y, way in (("bot", 0.0, -1), ("top", INNER * (R - 1), 1)):
            node(f"{side}_col_short{c}", INNER * c, y + way * ENTRY)
            node(f"{side}_col_long{c}", INNER * c, y + way * EXIT)
    for r in range(R):
        for side, x, way in (("left", 0.0, -1), ("right", INNER * (C - 1), 1)):
            node(f"{side}_row_short{r}", x + way * ENTRY, INNER * r)
            node(f"{side}_row_long{r}", x + way * EXIT, INNER * r)
    starts = [f"{side}_col_short{c}" for c in range(C) for side in ("bot", "top")]
    starts += [f"{side}_row_short{r}" for r in range(R) for side in ("left", "right")]
    ends = [f"{side}_col_long{c}" for c in range(C) for side in ("top", "bot")]
    ends += [f"{side}_row_long{r}" for r in range(R) for side in ("right", "left")]
    for streets, passed, start, end in zip(grid.routes, grid.route_lights, starts, ends, strict=True):
        stops = [start, *(grid.lights[k] for k in passed), end]
        for name, a, b in zip(streets, stops[:-1], stops[1:], strict=True):
            length = str(grid.lengths[grid.number[name]])
            attributes = {"from": a, "to": b, "length": length, "speed": str(SPEED_LIMIT)}
            Xml.SubElement(edges, "edge", attributes, id=name, numLanes="1", priority="78")
        for a, b in pairwise(streets):
            Xml.SubElement(connections, "connection", {"from": a, "to": b}, fromLane="0", toLane="0")
    arguments = []
    for kind, root in (("node", nodes), ("edge", edges), ("connection", connections)):
        path = folder / f"grid.{kind[:3]}.xml"
        Xml.ElementTree(root).write(path)
        arguments += [f"--{kind}-files", str(path)]
    return arguments


def write_demand(traffic: Traffic, path: Path, *, stochastic: bool = False) -> None:
    """Write the demand: the vehicle type, the initial cars, and later cars, evenly spaced or at random."""
    grid = traffic.grid
    root = Xml.Element("routes")
    Xml.SubElement(root, "vType", CAR, speedDev=str(traffic.speed_deviation))
    for i, streets in enumerate(grid.routes):
        Xml.SubElement(root, "route", id=f"route{i}", edges=" ".join(streets))
    stand = {"type": "human", "depart": "1", "departSpeed": "0", "departLane": "0"}
    for i, streets in enumerate(grid.routes):
        last = len(streets) - 1 if traffic.initial == "everywhere" else 1
        for j in range(last):
            place = str(STANDING_BETWEEN if j else STANDING_AT)
            car = Xml.SubElement(root, "vehicle", stand, id=f"first{i}_{j}", departPos=place)
            if j == 0:
                car.set("route", f"route{i}")
            else:
                Xml.SubElement(car, "route", edges=" ".join(streets[j:]))
    often = {"probability": str(1 / traffic.period)} if stochastic else {"period": str(traffic.period)}
    moving = {"type": "human", "begin": "1", "end": "86400", "departLane": "free", "departSpeed": "30"}
    for i in range(grid.n_routes):
        if traffic.inflows[i]:
            Xml.SubElement(root, "flow", moving | often, id=f"flow{i}", route=f"route{i}")
    Xml.ElementTree(root).write(path)


def actuated(grid: Grid, path: Path) -> None:
    """Write SUMO's own actuated lights with Flow's settings: green 31 s (8 to 45), yellow 6 s (3 to 6)."""
    root = Xml.Element("additional")
    for name in grid.lights:
        logic = Xml.SubElement(root, "tlLogic", id=name, type="actuated", programID="actuated", offset="0")
        for key, value in (("max-gap", "3.0"), ("detector-gap", "0.6"), ("show-detectors", "true")):
            Xml.SubElement(logic, "param", key=key, value=value)
        for state in ("GrGr", "yryr", "rGrG", "ryry"):
            green = "G" in state
            times = ("31", "8", "45") if green else ("6", "3", "6")
            Xml.SubElement(logic, "phase", duration=times[0], minDur=times[1], maxDur=times[2], state=state)
    Xml.ElementTree(root).write(path)
