"""Films of cities."""

import pytest
from factorax_traffic.city.film import animate_city
from pages import colours, watched
from PIL import Image

pytestmark = pytest.mark.sumo


def test_the_film(scene, tmp_path):
    animate_city({"one": scene, "two": scene}, tmp_path / "film.gif", size=2.0)
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames > 10  # equal frames are joined
    assert [path.name for path in tmp_path.iterdir()] == ["film.gif"]


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
