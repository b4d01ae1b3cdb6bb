"""Readings of the detectors from cars that were put where they are."""

import jax
import numpy as np
import pytest

from factorax.problems.traffic import LaneSimulator, Traffic
from factorax.problems.traffic.lane_state import first_slots


@pytest.mark.parametrize("initial", ["entries", "everywhere"])
def test_first_readings_need_only_the_first_slots(initial):
    simulator = LaneSimulator(Traffic(2, 3, initial=initial))
    state = simulator.reset(jax.random.key(0))
    first = first_slots(state, int(simulator.n_first.max()))
    for a, b in zip(simulator.read(first), simulator.read(state), strict=True):
        np.testing.assert_array_equal(a, b)


def test_counts_and_speeds_by_street():
    simulator = LaneSimulator(Traffic(1, 2), slots=12)
    grid, state = simulator.grid, simulator.reset(jax.random.key(0))
    route = 4  # eastbound: entry, inner street, exit
    # Two cars on the inner street (one of them standing), one in the junction before it, one on the entry.
    section, place = np.array([1, 1, 0, 0.0]), np.array([290.0, 200.0, 310.0, 100.0])
    speed = np.array([0.0, 10.0, 20.0, 30.0])
    state = state._replace(
        section=state.section.at[:4, route].set(section),
        place=state.place.at[:4, route].set(place),
        speed=state.speed.at[:4, route].set(speed),
        cars=state.cars.at[route].set(4),
    )
    entry, inner, _ = (grid.number[name] for name in grid.routes[route])
    readings = simulator.read(state)
    assert readings.count[inner] == 2
    assert readings.count[entry] == 1
    assert readings.cars[entry] == 2  # with the one in the junction at its end
    assert readings.total_speed[inner] == 10
    assert readings.stopped[inner] == 1
    assert readings.delay[inner] == pytest.approx(2 - 10 / 35)
    light, approach = np.argwhere(grid.incoming == inner)[0]
    np.testing.assert_array_equal(readings.speed[light, approach], [0, 10])  # nearest first
    np.testing.assert_array_equal(readings.distance[light, approach], [10, 100])
    light, approach = np.argwhere(grid.incoming == entry)[0]
    np.testing.assert_array_equal(readings.present[light, approach], [True, False])
