"""Which light influences which street."""

import numpy as np
import pytest
from factorax_traffic.city.demand import Demand
from factorax_traffic.city.influence import influence
from factorax_traffic.city.roads import Roads

from factorax import LaggedNetwork

pytestmark = pytest.mark.sumo


@pytest.fixture(scope="module")
def city(network_files):
    roads = Roads.read(network_files[0])
    return roads, Demand.read(network_files[1], roads)


def of(city, preset, light, **options):
    net = influence(*city, preset, **options).static
    return {net.targets[j] for j in np.flatnonzero(net.to_dense()[net.actions.index(light)])}


def test_presets(city):
    into = {"left0A0", "bottom0A0", "top0A0", "B0A0"}
    incident = into | {"A0left0", "A0bottom0", "A0top0", "A0B0"}
    assert of(city, "in", "A0") == into
    assert of(city, "incident", "A0") == incident
    assert of(city, "1-level", "A0") == incident | of(city, "incident", "B0")
    assert of(city, "n-level", "A0", n=1) == of(city, "1-level", "A0")
    assert of(city, "section", "A0") == incident
    assert of(city, "upstream", "A0", travel_time=12.0) == incident | {"bottom1B0", "top1B0", "C0B0"}
    assert of(city, "downstream", "A0", travel_time=12.0) == incident | {"B0C0"}
    assert of(city, "corridor", "A0") == incident | {"B0C0", "C0right0"}
    assert len(of(city, "complete", "A0")) == len(city[0].streets)
    with pytest.raises(ValueError, match="network: got 'all', want one of in, "):
        influence(*city, "all")
    with pytest.raises(ValueError, match="travel_time"):
        influence(*city, "reach", travel_time=-1.0)


def test_lags_are_travel_times_in_decisions(city):
    net = influence(*city, "lagged", travel_time=60.0, interval=10.0)
    assert isinstance(net, LaggedNetwork)
    row = dict(zip(net.static.targets, net.lags[net.static.actions.index("A0")], strict=True))
    assert row["A0B0"] == 0
    assert row["B0C0"] == 1
    assert row["C0right0"] == 2


def test_targets_may_be_lanes(city):
    streets, lanes = influence(*city, "incident"), influence(*city, "incident", targets="lane")
    assert lanes.static.shape[1] == len(city[0].lanes)
    assert np.array_equal(lanes.static.to_dense(), streets.static.to_dense()[:, city[0].street_of])
