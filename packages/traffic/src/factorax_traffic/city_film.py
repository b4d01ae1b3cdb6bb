"""Films of cities under controllers and trained policies."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from factorax._checks import did_you_mean
from factorax.learning.factored_ppo import FactoredPPO
from factorax.problems.registry import find_problem
from factorax.runs.folder import read_config

from .city.controllers import DETECTORS, PROGRAMMES, Controller, Named
from .city.env import CityEnv
from .city.film import animate_city
from .city.scene import CityScene, record

NAMES: tuple[str, ...] = get_args(Named)


def is_city(problem: str) -> bool:
    """Return whether a problem is a road network from files, in which lights choose phases.

    >>> is_city("resco:cologne8"), is_city("sumo:town.net.xml,town.rou.xml"), is_city("sumo:3x3")
    (True, True, False)
    """
    prefix, _, text = problem.partition(":")
    files = prefix == "sumo" and text.partition(",")[0].endswith(".xml")
    return prefix == "resco" or (files and "actions=switch" not in text.split(","))


def city_of(what: Sequence[str], problem: str | None) -> str:
    """Return the city to film: `problem`, or the city of the first run; empty if there is none."""
    if problem is not None and is_city(problem):
        return problem
    for name in what:
        if isinstance(name, str) and name not in NAMES and Path(name).is_dir():
            trained_on = read_config(Path(name))["problem"]
            return trained_on if is_city(trained_on) else ""
    return ""


def write_city_film(
    what: Sequence[str],
    out: Path,
    city: str,
    *,
    seconds: int,
    speed: int,
    sampled: bool,
    seed: int,
    trusted: str | None = None,
) -> dict[str, float]:
    """Write a film of controllers and runs in a city; return the mean delay of each in seconds, by title.

    `trusted` is the name of a problem that may be loaded although it refers to files; see `load`.
    """
    if not what or len(set(what)) != len(what):
        raise ValueError(f"what: got {list(what)!r}, want different folders of runs, or some of {', '.join(NAMES)}")
    for name in what:
        if name not in NAMES and not Path(name).is_dir():
            raise FileNotFoundError(
                f"what: got {name!r}, want the folder of a run or one of {', '.join(NAMES)}{did_you_mean(name, NAMES)}"
            )
    # Load all runs before opening the city: its name may come from an untrusted folder, which `load` rejects.
    models = {name: FactoredPPO.load(Path(name), trusted=trusted) for name in what if name not in NAMES}
    make: Any = find_problem(city)
    scenes = {}
    for name in what:
        controller: str | Callable[[CityEnv], Controller] = name
        settings: dict[str, Any] = {"programme": PROGRAMMES.get(name, "chosen"), **DETECTORS}
        if name in models:
            trained_on = read_config(Path(name))["problem"]
            controller, settings = (
                _policy(models[name] if trained_on == city else models[name].on(make), sampled),
                {},
            )
        scenes[Path(name).name] = _recorded(make(**settings), controller, seed, seconds)
    animate_city(scenes, out, speed=speed)
    return {title: scene.score.delay for title, scene in scenes.items()}


def _recorded(env: CityEnv, controller: Any, seed: int, seconds: int) -> CityScene:
    try:
        return record(env, controller, seed, seconds)
    finally:
        env.close()


def _policy(model: FactoredPPO, sampled: bool) -> Callable[[CityEnv], Controller]:
    return lambda env: lambda obs: np.asarray(model.predict(obs, deterministic=not sampled)[0])
