"""Cars and lights from above, second by second."""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import animation
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from .grid import ENTRY, EXIT, JUNCTION, Grid
from .lane_simulator import SECTION, Lanes
from .playing import Episode
from .signals import Signals, green_and_yellow

_BESIDE = 11.0
"""How far from the middle of a street its lanes are drawn, in metres: further than they are, to be seen."""
_GREEN, _YELLOW, _RED = "#009E73", "#F0C419", "#D55E00"
_CARS = "cividis"
_FORMATS = (".gif", ".mp4", ".html")


def animate(
    grid: Grid, scenes: Mapping[str, tuple[Episode, Lanes]], path: Path, *, speed: int = 10, size: float = 4.0
) -> None:
    """Write episodes side by side as a film: ``.gif``, ``.mp4`` or ``.html``.

    - `scenes`: what `play` gave, by the titles to be shown.
    - `speed`: how many seconds of traffic pass in one of the film.
    - `size`: of a scene, in inches; an inch has 100 pixels.
    """
    path = Path(path)
    writer, settings = _writer(path, speed)
    figure, draw = _stage(grid, scenes, size)
    steps = min(len(episode.reward) for episode, _ in scenes.values())
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".film-") as folder, mpl.rc_context(settings):
        unfinished = Path(folder) / path.name
        with writer.saving(figure, str(unfinished), 100):
            for t in range(steps):
                draw(t)
                writer.grab_frame()
        os.replace(unfinished, path)


def _writer(path: Path, speed: int) -> tuple[Any, Any]:
    """What writes the film, and matplotlib's settings for it."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"out: no folder {str(path.parent)!r} to write {path.name!r} to")
    if path.suffix == ".gif":
        return animation.PillowWriter(fps=speed), {}
    if path.suffix == ".html":
        return animation.HTMLWriter(fps=speed, embed_frames=True), {"animation.embed_limit": 200}
    if path.suffix == ".mp4":
        settings: Any = {"animation.ffmpeg_path": _ffmpeg()}
        with mpl.rc_context(settings):
            return animation.FFMpegWriter(fps=speed), settings
    raise ValueError(f"out: got {path.name!r}, want a name that ends in {', '.join(_FORMATS)}")


def _ffmpeg() -> str:
    try:
        from imageio_ffmpeg import get_ffmpeg_exe  # pyright: ignore[reportMissingImports]
    except ImportError:
        found = shutil.which("ffmpeg")
        if found is None:
            raise ImportError(
                "out: .mp4 needs ffmpeg: pip install imageio-ffmpeg; .gif and .html need nothing more"
            ) from None
        return found
    return get_ffmpeg_exe()


def _stage(grid: Grid, scenes: Mapping[str, Any], size: float) -> tuple[Figure, Callable[[int], None]]:
    """The figure, and what brings it to a second."""
    ways = _Ways(grid)
    width, height = ways.extent
    per_metre = size / max(width, height)
    shape = len(scenes) * (width * per_metre + 0.15) + 0.75, height * per_metre + 0.6
    figure = Figure(figsize=shape, layout="constrained")
    axes = figure.subplots(1, len(scenes), squeeze=False)[0]
    draws = [
        _scene(ax, ways, title, *scene, size=size) for ax, (title, scene) in zip(axes, scenes.items(), strict=True)
    ]
    bar = figure.colorbar(axes[0].collections[-1], ax=list(axes), fraction=0.05, pad=0.02, aspect=30)
    bar.set_label("speed, m/s", fontsize=8)
    bar.ax.tick_params(labelsize=8)

    def draw(t: int) -> None:
        for each in draws:
            each(t)

    draw(0)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # once is enough
    return figure, draw


def _scene(ax: Axes, ways: "_Ways", title: str, episode: Episode, states: Lanes, *, size: float) -> Callable:
    ax.set_aspect("equal")
    ax.set_axis_off()
    scale = size / max(ways.grid.rows, ways.grid.columns)
    ax.add_collection(LineCollection(list(ways.streets), colors="#E4E4E4", linewidths=4 * scale))
    lights = LineCollection(list(ways.stop_lines), linewidths=2.6 * scale, zorder=2)
    ax.add_collection(lights)
    cars = ax.scatter([], [], s=7 * scale**2, c=[], cmap=_CARS, vmin=0, vmax=30, zorder=3, linewidths=0)
    heading = ax.set_title(" ", fontsize=9, loc="left")
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
        heading.set_text(f"{title}, {t + 1} s: {there.sum()} cars, {standing} stand, return {lost}")

    return draw


class _Ways:
    """Where things are in the plane, in metres; the light in the south-west is at nought."""

    def __init__(self, grid: Grid):
        self.grid = grid
        start, ahead, lights = [], [], []
        for i, passed in enumerate(grid.route_lights):
            ns, back = i < 2 * grid.columns, i % 2
            along = np.array([0.0, 1.0] if ns else [1.0, 0.0]) * (-1 if back else 1)
            right = np.array([along[1], -along[0]])
            row, column = divmod(passed[0], grid.columns)
            first = SECTION * np.array([column, row], float)
            start.append(first - (ENTRY + JUNCTION / 2) * along + _BESIDE * right)
            ahead.append(along)
            lights.append(len(passed))
        self.start, self.ahead = np.array(start), np.array(ahead)  # of the routes, (L, 2)
        ends = self.start + (SECTION * np.array(lights) + EXIT)[:, None] * self.ahead
        self.streets = np.stack([self.start, ends], axis=1)
        self.route = np.repeat(np.arange(grid.n_routes), lights)
        self.light = np.concatenate([np.array(passed) for passed in grid.route_lights])
        within = np.concatenate([np.arange(n) for n in lights])
        middle = self.start[self.route] + (SECTION * within + ENTRY)[:, None] * self.ahead[self.route]
        across = 0.9 * _BESIDE * self.ahead[self.route][:, ::-1]
        self.stop_lines = np.stack([middle - across, middle + across], axis=1)

    @property
    def extent(self) -> tuple[float, float]:
        """Width and height."""
        width, height = np.ptp(self.streets.reshape(-1, 2), axis=0)
        return float(width), float(height)

    def where(self, section: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Of cars ``(S, L)``, ``(S, L, 2)``."""
        return self.start + (SECTION * section + place)[..., None] * self.ahead

    def colours(self, signals: np.ndarray) -> list[str]:
        """What every stop line shows, from the lights' direction, yellow and since, ``(3, n)``."""
        axis = (self.route >= 2 * self.grid.columns).astype(int)
        green, yellow = green_and_yellow(Signals(*(x[self.light] for x in signals)), axis)
        return np.where(green, _GREEN, np.where(yellow, _YELLOW, _RED)).tolist()
