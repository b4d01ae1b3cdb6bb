"""Cars and lights of a city from above, second by second, drawn on the lanes of its network."""

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from ..animation import film_writer, laid_out
from .controllers import Controller, play_in
from .env import CityEnv, Score
from .roads import Roads

MARGIN = 60.0
"""Metres around the lights that are shown."""
COLOURS = {"green": "#2E9E4F", "yellow": "#E0A800", "red": "#C8322B"}
_STANDING = 0.3


class CityScene(NamedTuple):
    """An episode for a film; a row or an entry for every second."""

    roads: Roads
    cars: list[np.ndarray]
    """Places of the cars, metres ``(cars, 2)``."""
    speeds: list[np.ndarray]
    signals: list[tuple[str, ...]]
    """What every light shows, one letter per link."""
    score: Score


def record(env: CityEnv, controller: str | Callable[[CityEnv], Controller], seed: int, seconds: int) -> CityScene:
    """Play the first seconds of an episode and return what there is to see of them."""
    if isinstance(seconds, bool) or not isinstance(seconds, int) or seconds < env.interval:
        raise ValueError(f"seconds: got {seconds!r}, want at least {env.interval}, the seconds between decisions")
    scene = CityScene(env.roads, [], [], [], Score(0.0, 0, 0, 0, 0, 0))
    env.horizon = seconds

    def look() -> None:
        api = env.simulation.api
        names = api.vehicle.getIDList()
        scene.cars.append(np.array([api.vehicle.getPosition(name) for name in names], float).reshape(-1, 2))
        scene.speeds.append(np.array([api.vehicle.getSpeed(name) for name in names], float))
        states = (api.trafficlight.getRedYellowGreenState(light.name) for light in env.roads.lights)
        scene.signals.append(tuple(states))

    env.every_second = look
    try:
        return scene._replace(score=play_in(env, controller, seed))
    finally:
        env.every_second = None


def animate_city(scenes: Mapping[str, CityScene], path: Path, *, speed: int = 10, size: float = 5.0) -> None:
    """Write scenes side by side as a film, ``.gif`` or ``.mp4``; `speed`: seconds of traffic per second of film."""
    path = Path(path)
    writer, settings = film_writer(path, speed)
    if writer is None:
        raise ValueError(f"out: got {path.name!r}, and films of cities are .gif or .mp4; want one of these")
    figure, draw = _stage(scenes, size)
    seconds = min(len(scene.cars) for scene in scenes.values())
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".film-") as folder, mpl.rc_context(settings):
        unfinished = Path(folder) / path.name
        with writer.saving(figure, str(unfinished), 100):
            for t in range(seconds):
                draw(t)
                writer.grab_frame()
        os.replace(unfinished, path)


def _stage(scenes: Mapping[str, CityScene], size: float) -> tuple[Figure, Callable[[int], None]]:
    """The figure, and what brings it to a second."""
    low, high = _extent(next(iter(scenes.values())).roads)
    width, height = (high - low) * size / (high - low).max()
    figure = Figure(figsize=(len(scenes) * (max(width, 2.5) + 0.15) + 0.8, height + 0.5), layout="constrained")
    axes = figure.subplots(1, len(scenes), squeeze=False)[0]
    draws = [_scene(ax, title, scene, low, high) for ax, (title, scene) in zip(axes, scenes.items(), strict=True)]
    return figure, laid_out(figure, axes, draws)


def _extent(roads: Roads) -> tuple[np.ndarray, np.ndarray]:
    """Corners of what is shown: the lanes that lead to lights, up to 200 m before them, and a margin."""
    ends = np.array([roads.shapes[lane][-1] for light in roads.lights for lane in light.lanes])
    return ends.min(axis=0) - 200 - MARGIN, ends.max(axis=0) + 200 + MARGIN


def _scene(ax: Axes, title: str, scene: CityScene, low: np.ndarray, high: np.ndarray) -> Callable[[int], None]:
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.add_collection(LineCollection(list(scene.roads.shapes), colors="#DADADA", linewidths=1.6))
    stops = [(i, lane) for i, light in enumerate(scene.roads.lights) for lane in light.lanes]
    at = np.array([scene.roads.shapes[lane][-1] for _, lane in stops])
    lights = ax.scatter(at[:, 0], at[:, 1], s=9, zorder=2, linewidths=0)
    cars: Any = ax.scatter([], [], s=7, c=[], cmap="cividis", vmin=0, vmax=15, zorder=3, linewidths=0)
    heading = ax.set_title(" ", fontsize=8, loc="left")
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))

    def draw(t: int) -> None:
        cars.set_offsets(scene.cars[t])
        cars.set_array(scene.speeds[t])
        lights.set_facecolor([COLOURS[shown(scene, t, i, lane)] for i, lane in stops])
        standing = int((scene.speeds[t] <= _STANDING).sum())
        heading.set_text(f"{title}, {t + 1} s: {len(scene.cars[t])} cars, {standing} stand")

    return draw


def shown(scene: CityScene, second: int, light: int, lane: int) -> str:
    """Return the colour that a light shows a lane: green if any of its links has green, else yellow if any has it."""
    state = scene.signals[second][light]
    letters = {state[link.index].lower() for link in scene.roads.lights[light].links if link.origin == lane}
    return "green" if "g" in letters else "yellow" if "y" in letters else "red"
