"""Films of cities: cars and lights from above, second by second, drawn on the lanes of the network."""

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from ..animation import film_writer, laid_out
from ..canvas_film import write_film_page
from .canvas import encode_city_film
from .scene import FASTEST, CityScene, extent, shown

COLOURS = {"green": "#2E9E4F", "yellow": "#E0A800", "red": "#C8322B"}
_STANDING = 0.3


def animate_city(scenes: Mapping[str, CityScene], path: Path, *, speed: int = 10, size: float = 5.0) -> None:
    """Write scenes side by side as a film: ``.gif``, ``.mp4``, or ``.html``, a page with a canvas and controls.

    - `speed`: seconds of traffic per second of film.
    - `size`: size of a scene in inches, at 100 pixels per inch.
    """
    path = Path(path)
    writer, settings = film_writer(path, speed)
    if writer is None:
        write_film_page(path, encode_city_film(scenes), speed=speed)
        return
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
    """Return the figure, and a function that updates it to a given second."""
    low, high = extent(next(iter(scenes.values())).roads)
    width, height = (high - low) * size / (high - low).max()
    figure = Figure(figsize=(len(scenes) * (max(width, 2.5) + 0.15) + 0.8, height + 0.5), layout="constrained")
    axes = figure.subplots(1, len(scenes), squeeze=False)[0]
    draws = [_scene(ax, title, scene, low, high) for ax, (title, scene) in zip(axes, scenes.items(), strict=True)]
    return figure, laid_out(figure, axes, draws)


def _scene(ax: Axes, title: str, scene: CityScene, low: np.ndarray, high: np.ndarray) -> Callable[[int], None]:
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.add_collection(LineCollection(list(scene.roads.shapes), colors="#DADADA", linewidths=1.6))
    stops = [(i, lane) for i, light in enumerate(scene.roads.lights) for lane in light.lanes]
    at = np.array([scene.roads.shapes[lane][-1] for _, lane in stops])
    lights = ax.scatter(at[:, 0], at[:, 1], s=9, zorder=2, linewidths=0)
    cars: Any = ax.scatter([], [], s=7, c=[], cmap="cividis", vmin=0, vmax=FASTEST, zorder=3, linewidths=0)
    heading = ax.set_title(" ", fontsize=8, loc="left")
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))

    def draw(t: int) -> None:
        cars.set_offsets(scene.cars[t])
        cars.set_array(scene.speeds[t])
        lights.set_facecolor([COLOURS[shown(scene, t, i, lane)] for i, lane in stops])
        standing = int((scene.speeds[t] <= _STANDING).sum())
        heading.set_text(f"{title}, {t + 1} s: {len(scene.cars[t])} cars, {standing} standing")

    return draw
