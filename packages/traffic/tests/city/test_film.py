"""Films of cities: what is packed is what was recorded, which city is filmed, and what is refused."""

import base64

import numpy as np
import pytest
from factorax_traffic.animation import SPEED_UNIT
from factorax_traffic.city.film import LETTERS, animate_city, city_of, encode_city_film, is_city, write_city_film
from factorax_traffic.city.scene import extent, shown
from pages import colours, watched
from PIL import Image
from runs import hostile
from small_settings import SMALL

from factorax import runs
from factorax.ppo import Config

OPTIONS = {"seconds": 20, "speed": 10, "sampled": False, "seed": 0}


@pytest.mark.sumo
def test_a_film_is_one_file(scene, tmp_path):
    animate_city({"one": scene, "two": scene}, tmp_path / "film.gif", size=2.0)
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames > 10  # equal frames are joined
    assert [path.name for path in tmp_path.iterdir()] == ["film.gif"]


@pytest.mark.sumo
@pytest.mark.browser
@pytest.mark.slow
def test_the_page_plays(browser, scene, tmp_path):
    animate_city({"one": scene, "two": scene}, tmp_path / "film.html")
    page = browser.new_page(viewport={"width": 800, "height": 800})
    problems = watched(page)
    page.goto((tmp_path / "film.html").as_uri())
    page.locator(".film-play").click()
    page.locator(".film-time").fill("19")
    first, second = page.locator(".film-caption").all_inner_texts()
    assert first.startswith("one, 20 s: ")
    assert second.startswith("two, 20 s: ")
    assert "return" not in first
    assert colours(page, "canvas") > 10
    assert problems == []
    page.close()


def unpacked(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype)


@pytest.mark.sumo
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


@pytest.mark.sumo
def test_a_page_stands_alone(scene, tmp_path):
    animate_city({"one": scene, "two": scene}, tmp_path / "film.html")
    page = (tmp_path / "film.html").read_text()
    assert "https://" not in page
    assert page.count("<script") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["film.html"]


def test_resco_and_networks_from_files_are_cities():
    assert is_city("resco:cologne8")
    assert is_city("sumo:a.net.xml,a.rou.xml,begin=3")
    assert not is_city("sumo:3x3")
    assert not is_city("traffic:3x3")


def test_the_city_is_the_given_problem_or_none():
    assert city_of(["greedy"], "resco:cologne8") == "resco:cologne8"
    assert city_of(["greedy"], "own") == ""
    assert city_of(["gap-out", "nobody"], None) == ""


def test_repeated_and_unknown_names_are_refused(tmp_path):
    gif = tmp_path / "film.gif"
    with pytest.raises(ValueError, match=r"what: got \['greedy', 'greedy'\], want different"):
        write_city_film(["greedy", "greedy"], gif, "resco:cologne8", **OPTIONS)
    with pytest.raises(FileNotFoundError, match=r"what: got 'gredy'.*did you mean greedy"):
        write_city_film(["gredy"], gif, "resco:cologne8", **OPTIONS)


@pytest.mark.usefixtures("surroundings")
def test_watch_loads_a_name_that_reads_files_only_if_it_is_repeated(factorax, tmp_path):
    run, city = tmp_path / "run", "sumo:a.net.xml,a.rou.xml"
    runs.train("contextual-bandit:3", Config(total_timesteps=24, **SMALL), run, progress_bar=False)
    hostile.problem(run, city)
    for options in ((), ("--problem", "chain:3")):
        code, _, error = factorax("watch", run, *options)
        assert code == 2
        assert f"confirm with --problem {city}" in error


def test_a_folder_from_a_stranger_opens_no_files(tmp_path, monkeypatch):
    city = "sumo:/a/town.net.xml,/a/town.rou.xml"
    run = tmp_path / "run"
    runs.train("contextual-bandit:3", Config(total_timesteps=24, **SMALL), run, progress_bar=False)
    hostile.problem(run, city)
    monkeypatch.setattr("factorax_traffic.city.film.find_problem", lambda name: pytest.fail("opened"))
    assert city_of(["greedy", str(run)], "own") == city
    with pytest.raises(ValueError, match="--problem"):
        write_city_film(["greedy", str(run)], tmp_path / "film.gif", city, **OPTIONS, trusted="own")
