"""Cities of any size: the same files from the same seed, and trips from border to border."""

import re

import numpy as np
import pytest
from factorax_traffic.city import CityEnv
from factorax_traffic.city.synthetic import write_city


@pytest.mark.sumo
def test_a_city_is_played_and_repeats(tmp_path):
    net, routes = write_city(tmp_path, 2, 3, trips=40, seed=3, seconds=60)
    text = routes.read_text()
    trips = re.findall(r'depart="(\d+)" from="(\w+)" to="(\w+)"', text)
    assert len(trips) == 40
    assert len({origin for _, origin, _ in trips}) > 5
    assert all(0 <= int(depart) < 60 for depart, *_ in trips)
    env = CityEnv(net, routes, horizon=120)
    try:
        assert len(env.roads.lights) == 6
        assert min(env.roads.n_phases) >= 2
        env.reset(seed=0)
        truncated = False
        while not truncated:
            *_, truncated, info = env.step(np.zeros(6, int))
        assert info["score"].trips == 40
    finally:
        env.close()
    assert write_city(tmp_path, 2, 3, trips=40, seed=3, seconds=60)[1].read_text() == text
    assert write_city(tmp_path, 2, 3, trips=40, seed=4, seconds=60)[1].read_text() != text


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": 0}, "rows: got 0"),
        ({"columns": 1.5}, "columns: got 1.5"),
        ({"rows": 1, "columns": 1}, "rows: got 1 by 1 lights, want at least two lights"),
        ({"trips": 0}, "trips: got 0"),
        ({"seed": -1}, "seed: got -1"),
        ({"street": 3.0}, "street: got 3.0, want metres"),
    ],
)
def test_what_is_refused(tmp_path, changed, message):
    with pytest.raises(ValueError, match=message):
        write_city(tmp_path, **{"rows": 2, "columns": 2, "trips": 10} | changed)


def test_a_folder_that_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="folder: no folder"):
        write_city(tmp_path / "none", 2, 2, trips=10)
