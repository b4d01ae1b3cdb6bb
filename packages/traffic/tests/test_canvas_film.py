"""Films as data for a canvas: what is packed is what was simulated, and the page stands alone."""

import base64
import json
import re

import jax
import numpy as np
import pytest
from factorax_traffic import LaneSimulator, Traffic
from factorax_traffic.animation import animate
from factorax_traffic.canvas_film import SPEED_UNIT, encode_film, write_film_page
from factorax_traffic.controllers import every
from factorax_traffic.drawing import GREEN, RED, YELLOW, Ways
from factorax_traffic.episode import play
from pages import colours, serious_violations, watched

SECONDS = 20


@pytest.fixture(scope="module")
def scene():
    simulator = LaneSimulator(Traffic(1, 2, horizon=SECONDS), slots=12)
    controller = every(simulator.grid, 5)
    played = jax.jit(lambda key: play(simulator, controller, key))(jax.random.key(0))
    return simulator.grid, jax.tree.map(np.asarray, played)


def unpacked(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype)


def test_cars_and_lights_are_where_the_simulator_had_them(scene):
    grid, (episode, states) = scene
    film = encode_film(grid, {"every 5": (episode, states)})
    (packed,) = film["scenes"]
    counts = unpacked(packed["counts"], "<u2").reshape(SECONDS, grid.n_routes)
    np.testing.assert_array_equal(counts, states.cars)
    ways, ends = Ways(grid), np.cumsum(counts.ravel())
    along, speeds = unpacked(packed["along"], "<u2") * film["unit"], unpacked(packed["speeds"], np.uint8) * SPEED_UNIT
    assert len(along) == len(speeds) == ends[-1]
    for t in (0, SECONDS - 1):
        for route in range(grid.n_routes):
            end = ends[t * grid.n_routes + route]
            mine = slice(end - counts[t, route], end)
            shown = np.array(film["start"][route]) + along[mine, None] * np.array(film["ahead"][route])
            cars = slice(0, counts[t, route])
            true = ways.where(states.section[t], states.place[t])[cars, route]
            np.testing.assert_allclose(shown, true * [1, -1], atol=0.2)
            np.testing.assert_allclose(speeds[mine], states.speed[t, cars, route], atol=SPEED_UNIT)
    lights = unpacked(packed["lights"], np.uint8).reshape(SECONDS, -1)
    for t in range(SECONDS):
        named = np.array([RED, YELLOW, GREEN])[lights[t]].tolist()
        assert named == ways.colours(np.asarray(states.signals)[:, t])
    assert packed["returns"][-1] == pytest.approx(float(episode.reward.sum()), abs=0.1)


def test_the_page_needs_nothing_else_and_is_small(scene, tmp_path):
    grid, played = scene
    animate(grid, {"</script><script>alert(1)</script>": played}, tmp_path / "film.html", speed=7)
    page = (tmp_path / "film.html").read_text()
    assert len(page) < 60_000
    assert not re.search(r"(src|href)\s*=", page)
    assert "https://" not in page
    assert page.count("<script") == 2
    data = json.loads(re.search(r'id="film-data">(.*?)</script>', page).group(1))
    assert data["speed"] == 7
    assert data["scenes"][0]["title"] == "</script><script>alert(1)</script>"
    assert "&lt;/script&gt;" in page


def test_a_page_that_cannot_be_written_leaves_nothing(scene, tmp_path):
    film = encode_film(scene[0], {"a": scene[1]})
    with pytest.raises(ValueError, match="Out of range float values"):
        write_film_page(tmp_path / "film.html", {**film, "unit": float("nan")})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.browser
@pytest.mark.slow
def test_the_film_plays_pauses_and_scrubs(browser, scene, tmp_path):
    grid, played = scene
    animate(grid, {"first": played, "second": played, "third": played}, tmp_path / "film.html", speed=50)
    page = browser.new_page(viewport={"width": 390, "height": 800})
    problems = watched(page)
    page.goto((tmp_path / "film.html").as_uri())
    button = page.locator(".film-play")
    assert button.inner_text() == "Pause"  # it plays at once
    button.click()
    assert button.inner_text() == "Play"
    page.locator(".film-time").fill(str(SECONDS - 1))
    captions = page.locator(".film-caption")
    first, second = captions.all_inner_texts()
    assert first.startswith(f"first, {SECONDS} s: ")
    assert second.startswith(f"second, {SECONDS} s: ")
    page.locator(".film-choice").nth(1).select_option("2")
    assert captions.nth(1).inner_text().startswith(f"third, {SECONDS} s: ")
    assert colours(page, "canvas") > 10  # streets, lights and cars
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert serious_violations(page) == {}
    assert problems == []
    page.close()
