"""Encoding of city episodes as data for the HTML canvas that shows films of traffic."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..canvas_film import SPEED_UNIT, flipped, packed
from .scene import FASTEST, CityScene, extent, shown

LETTERS = {"red": 0, "yellow": 1, "green": 2}


def encode_city_film(scenes: Mapping[str, CityScene]) -> dict[str, Any]:
    """Return episodes as JSON: the map, and for each second the positions, directions and speeds of cars and the
    colours of lights; see `factorax_traffic.canvas_film`."""
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
        "scenes": [_scene(title, scene, stops, corner, unit) for title, scene in scenes.items()],
    }


def _across(end: np.ndarray, width: float) -> np.ndarray:
    """Return the stop line at the end of a lane, from the last two points of the lane."""
    ahead = (end[1] - end[0]) / max(float(np.linalg.norm(end[1] - end[0])), 1e-9)
    aside = width / 2 * np.array([-ahead[1], ahead[0]])
    return np.stack([end[1] - aside, end[1] + aside])


def _scene(
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
