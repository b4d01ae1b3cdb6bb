"""Films of cities under controllers and trained policies: cars and lights on the lanes of the network."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from factorax._text import did_you_mean
from factorax.ppo.model import FactoredPPO
from factorax.problems.registry import find_problem
from factorax.runs.folder import read_config

from ..animation import SPEED_UNIT, STANDING, film_writer, flipped, packed, write_film_page, write_frames
from .controllers import DETECTORS, PROGRAMMES, Controller, Named
from .env import CityEnv
from .scene import FASTEST, CityScene, extent, record, shown

NAMES: tuple[str, ...] = get_args(Named)
COLOURS = {"red": "#C8322B", "yellow": "#E0A800", "green": "#2E9E4F"}
LETTERS = {"red": 0, "yellow": 1, "green": 2}


def is_city(problem: str) -> bool:
    """Return whether a problem is a road network from files, in which lights choose phases.

    >>> is_city("resco:cologne8"), is_city("sumo:town.net.xml,town.rou.xml"), is_city("sumo:3x3")
    (True, True, False)
    """
    prefix, _, text = problem.partition(":")
    return prefix == "resco" or (prefix == "sumo" and text.partition(",")[0].endswith(".xml"))


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


def animate_city(scenes: Mapping[str, CityScene], path: Path, *, speed: int = 10, size: float = 5.0) -> None:
    """Write scenes side by side as a film: ``.gif``, ``.mp4``, or ``.html``, a page with a canvas and controls.

    - `speed`: seconds of traffic per second of film.
    - `size`: size of a scene in inches, at 100 pixels per inch.
    """
    path = Path(path)
    if path.suffix == ".html":
        film_writer(path, speed)
        write_film_page(path, encode_city_film(scenes), speed=speed)
        return
    low, high = extent(next(iter(scenes.values())).roads)
    width, height = (high - low) * size / (high - low).max()
    shape = len(scenes) * (max(width, 2.5) + 0.15) + 0.8, height + 0.5
    seconds = min(len(scene.cars) for scene in scenes.values())
    write_frames(path, scenes, _draw_scene, size=shape, seconds=seconds, speed=speed)


def _draw_scene(ax: Axes, title: str, scene: CityScene) -> Callable[[int], None]:
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.add_collection(LineCollection(list(scene.roads.shapes), colors="#DADADA", linewidths=1.6))
    stops = [(i, lane) for i, light in enumerate(scene.roads.lights) for lane in light.lanes]
    at = np.array([scene.roads.shapes[lane][-1] for _, lane in stops])
    lights = ax.scatter(at[:, 0], at[:, 1], s=9, zorder=2, linewidths=0)
    cars: Any = ax.scatter([], [], s=7, c=[], cmap="cividis", vmin=0, vmax=FASTEST, zorder=3, linewidths=0)
    heading = ax.set_title(" ", fontsize=8, loc="left")
    low, high = extent(scene.roads)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))

    def draw(t: int) -> None:
        cars.set_offsets(scene.cars[t])
        cars.set_array(scene.speeds[t])
        lights.set_facecolor([COLOURS[shown(scene, t, i, lane)] for i, lane in stops])
        standing = int((scene.speeds[t] <= STANDING).sum())
        heading.set_text(f"{title}, {t + 1} s: {len(scene.cars[t])} cars, {standing} standing")

    return draw


def encode_city_film(scenes: Mapping[str, CityScene]) -> dict[str, Any]:
    """Return episodes as JSON: the map, and for each second the positions, directions and speeds of cars and the
    colours of lights; see `factorax_traffic.film.encode_film`."""
    roads = next(iter(scenes.values())).roads
    low, high = extent(roads)
    width, height = (high - low).tolist()
    size = max(width, height)
    stops = [(i, lane) for i, light in enumerate(roads.lights) for lane in light.lanes]
    lines = np.array([_across(np.array(roads.shapes[lane], float)[-2:], 0.006 * size) for _, lane in stops])
    unit = size / 65_000
    corner = np.array([low[0], -high[1]])  # on a screen, where y grows downward
    return {
        "streets": [flipped(np.array(shape, float)) for shape in roads.shapes],
        "stop_lines": flipped(lines),
        "box": {"left": corner[0], "top": corner[1], "width": width, "height": height},
        "sizes": {"street": 0.004 * size, "stop_line": 0.004 * size, "car": 0.004 * size},
        "unit": unit,
        "speed_unit": SPEED_UNIT,
        "fastest": FASTEST,
        "scenes": [_encode_scene(title, scene, stops, corner, unit) for title, scene in scenes.items()],
    }


def _across(end: np.ndarray, width: float) -> np.ndarray:
    """Return the stop line at the end of a lane, from the last two points of the lane."""
    ahead = (end[1] - end[0]) / max(float(np.linalg.norm(end[1] - end[0])), 1e-9)
    aside = width / 2 * np.array([-ahead[1], ahead[0]])
    return np.stack([end[1] - aside, end[1] + aside])


def _encode_scene(
    title: str, scene: CityScene, stops: list[tuple[int, int]], corner: np.ndarray, unit: float
) -> dict[str, Any]:
    places = (np.concatenate(scene.cars) * [1.0, -1.0] - corner) / unit
    visible = ((places >= 0) & (places <= 65_535)).all(axis=1)
    second = np.repeat(np.arange(len(scene.cars)), [len(cars) for cars in scene.cars])[visible]
    speeds, angles = np.concatenate(scene.speeds)[visible], np.concatenate(scene.directions)[visible]
    lights = [[LETTERS[shown(scene, t, i, lane)] for i, lane in stops] for t in range(len(scene.cars))]
    return {
        "title": title,
        "seconds": len(scene.cars),
        "counts": packed(np.bincount(second, minlength=len(scene.cars)).astype("<u2")),
        "places": packed(np.round(places[visible]).astype("<u2")),
        "directions": packed((np.round(angles / 360 * 256).astype(int) % 256).astype(np.uint8)),
        "speeds": packed(np.clip(np.round(speeds / SPEED_UNIT), 0, 255).astype(np.uint8)),
        "lights": packed(np.array(lights, np.uint8)),
    }
