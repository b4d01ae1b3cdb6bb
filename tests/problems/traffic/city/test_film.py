"""Films of cities."""

import numpy as np
import pytest
from PIL import Image

from factorax.problems.traffic.city import CityEnv
from factorax.problems.traffic.city.film import animate_city, record, shown

pytestmark = pytest.mark.sumo


@pytest.fixture(scope="module")
def scene(network_files):
    env = CityEnv(*network_files, horizon=100)
    recorded = record(env, "greedy", 1, 20)
    assert env.every_second is None
    with pytest.raises(ValueError, match="seconds: got 9, want at least 10, the seconds between decisions"):
        record(env, "greedy", 1, 9)
    env.close()
    return recorded


def test_every_second_is_recorded(scene):
    assert len(scene.cars) == len(scene.speeds) == len(scene.signals) == 20
    assert all(places.shape == (len(speeds), 2) for places, speeds in zip(scene.cars, scene.speeds, strict=True))
    assert len(scene.cars[-1])
    points = np.concatenate([np.array(shape) for shape in scene.roads.shapes])
    assert (scene.cars[-1] >= points.min(axis=0) - 10).all()
    assert (scene.cars[-1] <= points.max(axis=0) + 10).all()
    assert scene.score.trips >= len(scene.cars[-1])


def test_a_lane_is_green_if_one_of_its_links_is(scene):
    light = scene.roads.lights[0]
    for lane in light.lanes:
        letters = [scene.signals[0][0][link.index] for link in light.links if link.origin == lane]
        assert (shown(scene, 0, 0, lane) == "green") == any(letter in "Gg" for letter in letters)


def test_the_film(scene, tmp_path):
    animate_city({"one": scene, "two": scene}, tmp_path / "film.gif", size=2.0)
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames > 10  # equal frames are joined
    assert [path.name for path in tmp_path.iterdir()] == ["film.gif"]
    with pytest.raises(ValueError, match=r"out: got 'film.html', and films of cities are .gif or .mp4"):
        animate_city({"one": scene}, tmp_path / "film.html")
