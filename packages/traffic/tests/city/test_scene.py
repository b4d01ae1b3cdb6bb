"""Seconds of an episode in a city."""

import numpy as np
import pytest
from factorax_traffic.city.scene import extent, shown

pytestmark = pytest.mark.sumo


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


def test_all_stop_lines_are_shown(scene):
    low, high = extent(scene.roads)
    ends = np.array([scene.roads.shapes[lane][-1] for light in scene.roads.lights for lane in light.lanes])
    assert (low < ends).all()
    assert (ends < high).all()
