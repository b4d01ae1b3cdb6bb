"""What films of grids and of cities share: frames in a file, and a page that plays scenes on a canvas."""

import base64
import html
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import animation
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from factorax._files import write_whole
from factorax._text import printable
from factorax.runs.report.page import content_security_policy, script_json

SPEED_UNIT = 0.25
"""Speed in metres per second of one unit: a byte holds up to 64 m/s."""
STANDING = 0.3
"""Speed in m/s at or below which a car counts as standing."""
_FORMATS = (".gif", ".mp4", ".html")
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<div id="film"></div>
</main>
<script type="application/json" id="film-data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def write_frames(
    path: Path,
    scenes: Mapping[str, Any],
    draw_scene: Callable[[Axes, str, Any], Callable[[int], None]],
    *,
    size: tuple[float, float],
    seconds: int,
    speed: int,
) -> None:
    """Write scenes side by side as ``.gif`` or ``.mp4``, one frame per second of traffic.

    - `draw_scene`: draws the scene of a title on axes, and returns a function that updates it to a given second.
    - `size`: the size of the figure in inches of 100 pixels.
    """
    writer, settings = film_writer(path, speed)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(1, len(scenes), squeeze=False)[0]
    draws = [draw_scene(ax, title, scene) for ax, (title, scene) in zip(axes, scenes.items(), strict=True)]
    bar = figure.colorbar(axes[0].collections[-1], ax=list(axes), fraction=0.05, pad=0.02, aspect=30)
    bar.set_label("speed, m/s", fontsize=8)
    bar.ax.tick_params(labelsize=8)

    def draw(second: int) -> None:
        for each in draws:
            each(second)

    draw(0)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the layout is computed only once
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".film-") as folder, mpl.rc_context(settings):
        unfinished = Path(folder) / path.name
        with writer.saving(figure, str(unfinished), 100):
            for t in range(seconds):
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


def write_film_page(path: Path, film: Mapping[str, Any], *, speed: int = 10) -> None:
    """Write a self-contained page that plays a film.

    - `speed`: initial number of seconds of traffic per second; the page offers others.
    """
    script, style = film_script(), film_style() + _asset("page.css")
    title = "Traffic: " + ", ".join(printable(scene["title"]) for scene in film["scenes"])
    page = _PAGE.format(
        policy=html.escape(content_security_policy([script], [style])),
        title=html.escape(title),
        style=style,
        data=script_json({**film, "speed": speed, "autoplay": True}),
        script=script,
    )
    write_whole(path, lambda file: file.write(page.encode()))


def film_script() -> str:
    """Return the script that plays films: the function ``factoraxFilm(element, film)``."""
    return _asset("film.js")


def film_style() -> str:
    """Return the style sheet of the controls."""
    return _asset("film.css")


def _asset(name: str) -> str:
    folder = resources.files(__package__ or "").joinpath("canvas")
    return folder.joinpath(name).read_text(encoding="utf-8").replace("\r\n", "\n")


def flipped(points: np.ndarray) -> list[Any]:
    """Return points of the plane in screen coordinates, where y grows downwards."""
    return np.round(points * np.array([1.0, -1.0]), 2).tolist()


def packed(array: np.ndarray) -> str:
    """Return the bytes of an array in base64."""
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
