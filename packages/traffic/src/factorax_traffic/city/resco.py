"""The networks of RESCO (Ault and Sharon, 2021) by name, from an installed sumo-rl."""

import importlib.util
from functools import partial
from pathlib import Path
from typing import Any

from .env import CityEnv

NAMES = {
    "cologne1": 25200,
    "cologne3": 25200,
    "cologne8": 25200,
    "grid4x4": 0,
    "arterial4x4": 0,
    "ingolstadt1": 57600,
    "ingolstadt7": 57600,
    "ingolstadt21": 57600,
}
"""Names of the networks, with the second at which the hour of their demand starts."""
DETECTORS: dict[str, Any] = {"reach": 400.0, "zones": 8, "turns": True, "all_red": 20}
"""Settings of `CityEnv` with which the preset ``resco`` was tuned."""


def resco_files(name: str) -> tuple[Path, Path]:
    """Return the files of a RESCO network: streets and demand."""
    if name not in NAMES:
        raise ValueError(f"resco: got {name!r}, want one of {', '.join(NAMES)}")
    spec = importlib.util.find_spec("sumo_rl")
    places = [] if spec is None else [Path(place) for place in spec.submodule_search_locations or ()]
    for place in places:
        folder = place / "nets" / "RESCO" / name
        net, routes = folder / f"{name}.net.xml", sorted(folder.glob("*.rou.xml"))
        if net.exists() and routes:
            return net, routes[0]
    lacks = f"sumo-rl is installed in {places[0]}, without that network" if places else "sumo-rl is not installed"
    raise ValueError(
        f"resco: got {name!r}, but {lacks}; its wheel contains the RESCO networks: pip install --no-deps sumo-rl==1.4.5"
    )


def resco(name: str, **settings: Any) -> CityEnv:
    """Return the environment of a RESCO network with its protocol: one hour, a decision every 10 s, 3 s of yellow.

    Detectors reach 400 m in 8 zones and know where cars turn, and lights wait for a clear junction (at most 20 s of
    red), unless the settings say otherwise.
    """
    net, routes = resco_files(name)
    defaults: dict[str, Any] = {"begin": NAMES[name], **DETECTORS}
    return CityEnv(net, routes, **defaults | settings)


def maker(name: str, **settings: Any) -> partial[CityEnv]:
    """Return a picklable function that creates `resco` environments, for workers."""
    return partial(resco, name, **settings)
