"""Films of cars and lights from above, second by second."""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import animation
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from .canvas_film import encode_film, write_film_page
from .drawing import Ways
from .episode import TrafficEpisode
from .grid import Grid
from .lane_state import Lanes

_CARS = "cividis"
_FORMATS = (".gif", ".mp4", ".html")


def animate(
    grid: Grid, scenes: Mapping[str, tuple[TrafficEpisode, Lanes]], path: Path, *, speed: int = 10, size: float = 4.0
) -> None:
    """Write episodes side by side as a film: ``.gif``, ``.mp4``, or ``.html``, a page with a canvas and controls.

    - `scenes`: the results of `play`, by title.
    - `speed`: seconds of traffic per second of film.
    - `size`: the size of a scene in inches of 100 pixels.
    """
    path = Path(path)
    writer, settings = film_writer(path, speed)
    if writer is None:
        write_film_page(path, encode_film(grid, scenes), speed=speed)
        return
    figure, draw = _stage(grid, scenes, size)
    steps = min(len(episode.reward) for episode, _ in scenes.values())
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".film-") as folder, mpl.rc_context(settings):
        unfinished = Path(folder) / path.name
        with writer.saving(figure, str(unfinished), 100):
            for t in range(steps):
                draw(t)
                writer.grab_frame()
        os.replace(unfinished, path)


def film_writer(path: Path, speed: int) -> tuple[Any, Any]:
    """Return the writer of the film (None for a page with a canvas), and matplotlib's settings for it."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"out: no folder {str(path.parent)!r}; create it to write {path.name!r}")
    if path.suffix == ".gif":
        return animation.PillowWriter(fps=speed), {}
    if path.suffix == ".html":
        return None, {}
    if path.suffix == ".mp4":
        settings: Any = {"animation.ffmpeg_path": _ffmpeg()}
        with mpl.rc_context(settings):
            return animation.FFMpegWriter(fps=speed), settings
    raise ValueError(f"out: got {path.name!r}, want a name that ends in {', '.join(_FORMATS)}")


def _ffmpeg() -> str:
    try:
        from imageio_ffmpeg import get_ffmpeg_exe  # pyright: ignore[reportMissingImports]
    except ImportError:
        path = shutil.which("ffmpeg")
        if path is None:
            raise ImportError("out: .mp4 needs ffmpeg: pip install imageio-ffmpeg; or use .gif or .html") from None
        return path
    return get_ffmpeg_exe()


def _stage(grid: Grid, scenes: Mapping[str, Any], size: float) -> tuple[Figure, Callable[[int], None]]:
    """Return the figure, and a function that draws a given second."""
    ways = Ways(grid)
    width, height = ways.extent
    per_metre = size / max(width, height)
    shape = len(scenes) * (width * per_metre + 0.15) + 0.75, height * per_metre + 0.6
    figure = Figure(figsize=shape, layout="constrained")
    axes = figure.subplots(1, len(scenes), squeeze=False)[0]
    draws = [
        _scene(ax, ways, title, *scene, size=size) for ax, (title, scene) in zip(axes, scenes.items(), strict=True)
    ]
    return figure, laid_out(figure, axes, draws)


def laid_out(figure: Figure, axes: Sequence[Axes], draws: Sequence[Callable[[int], None]]) -> Callable[[int], None]:
    """Add the scale of speeds, fix the layout, and return a function that draws a given second in all panels."""
    bar = figure.colorbar(axes[0].collections[-1], ax=list(axes), fraction=0.05, pad=0.02, aspect=30)
    bar.set_label("speed, m/s", fontsize=8)
    bar.ax.tick_params(labelsize=8)

    def draw(t: int) -> None:
        for each in draws:
            each(t)

    draw(0)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the layout is computed only once
    return draw


def _scene(ax: Axes, ways: Ways, title: str, episode: TrafficEpisode, states: Lanes, *, size: float) -> Callable:
    ax.set_aspect("equal")
    ax.set_axis_off()
    scale = size / max(ways.grid.rows, ways.grid.columns)
    ax.add_collection(LineCollection(list(ways.streets), colors="#E4E4E4", linewidths=4 * scale))
    lights = LineCollection(list(ways.stop_lines), linewidths=2.6 * scale, zorder=2)
    ax.add_collection(lights)
    cars = ax.scatter([], [], s=7 * scale**2, c=[], cmap=_CARS, vmin=0, vmax=30, zorder=3, linewidths=0)
    heading = ax.set_title(" ", fontsize=8, loc="left")
    ax.margins(0.01)
    ax.autoscale()
    place, v, section, present, signals = (
        np.asarray(x) for x in (states.place, states.speed, states.section, states.cars, states.signals)
    )
    so_far = np.cumsum(np.asarray(episode.reward, float))

    def draw(t: int) -> None:
        there = np.arange(place.shape[1])[:, None] < present[t]
        cars.set_offsets(ways.where(section[t], place[t])[there])
        cars.set_array(v[t][there])
        lights.set_color(ways.colours(signals[:, t]))
        standing = int((v[t][there] <= 0.3).sum())
        lost = f"{so_far[t]:.0f}".replace("-", "−")
        heading.set_text(f"{title}, {t + 1} s: {there.sum()} cars, {standing} standing, return {lost}")

    return draw
