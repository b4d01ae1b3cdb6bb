"""Readings of cars at known places."""

import numpy as np
import pytest
from factorax_traffic.city.detectors import Cars, Detectors
from factorax_traffic.city.roads import Roads

pytestmark = pytest.mark.sumo


@pytest.fixture(scope="module")
def roads(network_files):
    return Roads.read(network_files[0])


def cars(roads, *rows):
    lane, before_stop, speed, waiting = zip(*rows, strict=True)
    number = np.array([roads.lanes.index(name) for name in lane])
    return Cars(
        number,
        roads.lengths[number] - np.array(before_stop),
        np.array(speed),
        np.array(waiting, float),
        np.zeros(0, int),
    )


def test_queued_and_approaching_cars_are_told_apart(roads):
    detectors = Detectors(roads, reach=90.0, zones=3)
    light = [light.name for light in roads.lights].index("B0")
    lane = roads.lights[light].lanes.index(roads.lanes.index("A0B0_0"))
    read = detectors.read(
        cars(
            roads,
            ("A0B0_0", 5, 0.0, 30),
            ("A0B0_0", 12, 0.1, 10),
            ("A0B0_0", 40, 8.0, 0),
            ("A0B0_0", 89, 4.0, 0),
            ("A0B0_0", 91, 9.0, 0),
            ("B0C0_0", 60, 0.0, 5),
        )
    )
    limit = roads.speeds[roads.lanes.index("A0B0_0")]
    assert read[light, lane, :4] == pytest.approx([0.2, 0.0, 0.1, 0.1])
    assert read[light, lane, 4] == pytest.approx(0.4)
    assert read[light, lane, 5] == pytest.approx((0.1 + 8 + 4) / 4 / limit)
    exits = [link.destination for link in roads.lights[light].links if link.origin == roads.lanes.index("A0B0_0")]
    share = exits.count(roads.lanes.index("B0C0_0")) / len(exits)
    assert read[light, lane, 6] == pytest.approx(0.1 * share)
    assert not detectors.read(cars(roads, ("A0B0_0", 95, 5.0, 0))).any()


def test_nobody_is_counted_twice_at_a_light_and_lights_are_barriers(roads):
    far = Detectors(roads, reach=1000.0, zones=1)
    count = far.read(cars(roads, ("left0A0_0", 30, 5.0, 0)))[..., 1].sum(axis=1)
    assert count == pytest.approx([0.1, 0, 0])
    short = Detectors(roads, reach=1000.0, zones=1, extended=False)
    assert np.array_equal(short.read(cars(roads, ("left0A0_0", 30, 5.0, 0)))[..., 1].sum(axis=1) > 0, count > 0)


def test_cars_that_stand_inside_a_junction_count_on_the_lane_they_came_from(roads):
    light = [light.name for light in roads.lights].index("B0")
    lane = roads.lanes.index("A0B0_0")
    no_light = next(i for i in range(len(roads.lanes)) if all(i not in light.lanes for light in roads.lights))
    inside = np.array([lane, lane, no_light])
    read = Detectors(roads).read(cars(roads, ("B0C0_0", 60, 9.0, 0))._replace(inside=inside))
    assert read[light, roads.lights[light].lanes.index(lane), -1] == 1.0
    assert read[..., -1].sum() == 1.0


def test_an_empty_network(roads):
    empty = Cars(np.zeros(0, int), np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0, int))
    assert not Detectors(roads).read(empty).any()


def test_lanes_with_one_cell_need_no_repetition(roads):
    """Both ways to find the cells of cars give the same numbers, bit for bit."""
    rng = np.random.default_rng(0)
    number = rng.integers(len(roads.lanes), size=80)
    speed = rng.choice([0.0, 0.1, 5.0, 13.9], 80)
    traffic = Cars(number, roads.lengths[number] * rng.random(80), speed, 40.0 * (speed <= 0.1), number[:5])
    general, simple = (Detectors(roads, reach=90.0, extended=False) for _ in range(2))
    assert simple._is_simple
    general.__dict__["_is_simple"] = False
    np.testing.assert_array_equal(general.read(traffic), simple.read(traffic))
