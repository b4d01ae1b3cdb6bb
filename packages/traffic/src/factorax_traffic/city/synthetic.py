"""Synthetic cities of any size: a grid with turns by netgenerate, and trips between random streets at its border."""

import subprocess
from pathlib import Path

import numpy as np

from factorax._checks import Count, Seed, checked
from factorax._files import write_whole

from ..sumo.network import program
from .roads import Roads


def write_city(
    folder: str | Path,
    rows: int,
    columns: int,
    *,
    trips: int,
    seed: int = 0,
    seconds: int = 3600,
    street: float = 200.0,
) -> tuple[Path, Path]:
    """Write the files of a city for `CityEnv`, and return their paths: streets and demand.

    - `folder`: an existing folder for ``city.net.xml`` and ``city.rou.xml``.
    - `rows`, `columns`: numbers of lights; all turns are allowed, on streets of two lanes.
    - `trips`: number of cars, each from one random street at the border to another, at a random whole second below
      `seconds`; the same `seed` gives the same file.
    - `street`: distance between lights in metres.
    """
    for name, value in (("rows", rows), ("columns", columns), ("trips", trips), ("seconds", seconds)):
        checked(name, value, Count)
    checked("seed", seed, Seed)
    if rows * columns < 2:
        raise ValueError(f"rows: got {rows} by {columns} lights, want at least two lights")
    if not 50.0 <= street < 10_000:
        raise ValueError(f"street: got {street!r}, want metres from 50 to 10,000")
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"folder: no folder {str(folder)!r}, want one that exists")
    net, routes = folder / "city.net.xml", folder / "city.rou.xml"
    command = [program("netgenerate"), "--grid", "--grid.x-number", str(columns), "--grid.y-number", str(rows)]
    command += ["--grid.length", str(street), "--grid.attach-length", str(street), "--default.lanenumber", "2"]
    command += [
        "--default-junction-type",
        "traffic_light",
        "--seed",
        str(seed),
        "--no-turnarounds",
        "--no-warnings",
        "-o",
        str(net),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"netgenerate: ended with code {done.returncode}: {done.stderr.strip()[-300:]}")
    entries, exits = _border(Roads.read(net))
    rng = np.random.default_rng(seed)
    departs = np.sort(rng.integers(seconds, size=trips))
    ends = [_ends(rng, entries, exits) for _ in range(trips)]
    lines = [
        f'<trip id="{i}" depart="{depart}" from="{a}" to="{b}"/>'
        for i, (depart, (a, b)) in enumerate(zip(departs.tolist(), ends, strict=True))
    ]
    text = "\n".join(["<routes>", *lines, "</routes>", ""])
    write_whole(routes, lambda file: file.write(text.encode()))
    return net, routes


def _border(roads: Roads) -> tuple[list[str], list[str]]:
    """Return the streets that lead into the city, and those that lead out of it."""
    following = roads.next_streets
    has_before, has_after = following.sum(axis=0) > 0, following.sum(axis=1) > 0
    entries = [name for name, before in zip(roads.streets, has_before, strict=True) if not before]
    exits = [name for name, after in zip(roads.streets, has_after, strict=True) if not after]
    return entries, exits


def _ends(rng: np.random.Generator, entries: list[str], exits: list[str]) -> tuple[str, str]:
    """Return a street into the city, and one out of it elsewhere: netgenerate names the way back ``BA`` for ``AB``."""
    origin = entries[rng.integers(len(entries))]
    others = [name for name in exits if not (len(name) == len(origin) and name in 2 * origin)]
    return origin, others[rng.integers(len(others))]
