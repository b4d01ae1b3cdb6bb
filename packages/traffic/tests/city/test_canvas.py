"""Episodes in a city as data for a canvas: what is packed is what was recorded."""

import base64

import numpy as np
import pytest
from factorax_traffic.canvas_film import SPEED_UNIT
from factorax_traffic.city.canvas import LETTERS, encode_city_film
from factorax_traffic.city.film import animate_city
from factorax_traffic.city.scene import extent, shown

pytestmark = pytest.mark.sumo


def unpacked(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype)


def test_cars_and_lights_are_where_sumo_had_them(scene):
    film = encode_city_film({"greedy": scene})
    (packed,) = film["scenes"]
    counts = unpacked(packed["counts"], "<u2")
    low, high = extent(scene.roads)
    inside = [((cars >= low) & (cars <= high)).all(axis=1) for cars in scene.cars]
    assert counts.tolist() == [int(these.sum()) for these in inside]
    places = unpacked(packed["places"], "<u2").reshape(-1, 2) * film["unit"]
    true = np.concatenate([cars[these] for cars, these in zip(scene.cars, inside, strict=True)])
    box = film["box"]
    np.testing.assert_allclose(places + np.array([box["left"], box["top"]]), true * [1, -1], atol=film["unit"])
    speeds = np.concatenate([s[these] for s, these in zip(scene.speeds, inside, strict=True)])
    np.testing.assert_allclose(unpacked(packed["speeds"], np.uint8) * SPEED_UNIT, speeds, atol=SPEED_UNIT)
    turns = np.concatenate([d[these] for d, these in zip(scene.directions, inside, strict=True)])
    shown_turns = unpacked(packed["directions"], np.uint8) * (360 / 256)
    assert (np.abs((shown_turns - turns + 180) % 360 - 180) <= 0.71).all()
    stops = [(i, lane) for i, light in enumerate(scene.roads.lights) for lane in light.lanes]
    lights = unpacked(packed["lights"], np.uint8).reshape(len(scene.cars), len(stops))
    assert lights[7].tolist() == [LETTERS[shown(scene, 7, i, lane)] for i, lane in stops]
    assert len(film["stop_lines"]) == len(stops)
    assert len(film["streets"]) == len(scene.roads.lanes)


def test_a_page_needs_no_other_file(scene, tmp_path):
    animate_city({"one": scene, "two": scene}, tmp_path / "film.html")
    page = (tmp_path / "film.html").read_text()
    assert "https://" not in page
    assert page.count("<script") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["film.html"]
