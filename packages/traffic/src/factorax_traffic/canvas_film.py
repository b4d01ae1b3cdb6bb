"""Episodes of traffic as data for a canvas, and a self-contained page that plays them."""

import base64
import html
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from factorax._files import write_whole
from factorax._html import content_security_policy, script_json
from factorax.structure.labels import printable

from .drawing import Ways
from .episode import TrafficEpisode
from .grid import Grid
from .lane_simulator import SECTION
from .lane_state import Lanes
from .signals import Signals, green_and_yellow

SPEED_UNIT = 0.25
"""Speed in metres per second of one unit: a byte holds up to 64 m/s."""
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


def encode_film(grid: Grid, scenes: Mapping[str, tuple[TrafficEpisode, Lanes]]) -> dict[str, Any]:
    """Return episodes as JSON: the map, and for each second the positions and speeds of cars and the colours of lights.

    - `scenes`: the results of `play`, by title.
    """
    ways = Ways(grid)
    longest = float(np.linalg.norm(ways.streets[:, 1] - ways.streets[:, 0], axis=1).max())
    unit = max(0.1, longest / 65_000)
    return {
        "streets": flipped(ways.streets),
        "stop_lines": flipped(ways.stop_lines),
        "start": flipped(ways.start),
        "ahead": flipped(ways.ahead),
        "unit": unit,
        "speed_unit": SPEED_UNIT,
        "scenes": [_scene(ways, title, *scene, unit=unit) for title, scene in scenes.items()],
    }


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


def _scene(ways: Ways, title: str, episode: TrafficEpisode, states: Lanes, *, unit: float) -> dict[str, Any]:
    place, speed, section, present, signals = (
        np.asarray(x) for x in (states.place, states.speed, states.section, states.cars, states.signals)
    )
    is_car = np.arange(place.shape[1])[:, None] < present[:, None, :]  # (T, slots, routes)
    by_route = is_car.swapaxes(1, 2)
    along = np.clip((SECTION * section + place) / unit, 0, 65_535).astype("<u2").swapaxes(1, 2)[by_route]
    speeds = np.clip(np.round(speed / SPEED_UNIT), 0, 255).astype(np.uint8).swapaxes(1, 2)[by_route]
    return {
        "title": title,
        "seconds": len(place),
        "counts": packed(np.clip(present, 0, 65_535).astype("<u2")),
        "along": packed(along),
        "speeds": packed(speeds),
        "lights": packed(np.stack([_colours(ways, signals[:, t]) for t in range(len(place))])),
        "returns": np.round(np.cumsum(np.asarray(episode.reward, float)), 1).tolist(),
    }


def _colours(ways: Ways, signals: np.ndarray) -> np.ndarray:
    """Return the colour of each stop line: 0 for red, 1 for yellow, 2 for green."""
    axis = (ways.route >= 2 * ways.grid.columns).astype(int)
    green, yellow = green_and_yellow(Signals(*(x[ways.light] for x in signals)), axis)
    return np.where(green, 2, np.where(yellow, 1, 0)).astype(np.uint8)


def packed(array: np.ndarray) -> str:
    """Return the bytes of an array in base64."""
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
