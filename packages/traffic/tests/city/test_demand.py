"""Trips and routes of the demand, and what is wrong with which trip."""

import re

import numpy as np
import pytest
from factorax_traffic.city.demand import Demand
from factorax_traffic.city.roads import Roads

pytestmark = pytest.mark.sumo


@pytest.fixture(scope="module")
def roads(network_files):
    return Roads.read(network_files[0])


def read(roads, tmp_path, content):
    path = tmp_path / "town.rou.xml"
    path.write_text(f"<routes>{content}</routes>")
    return Demand.read(path, roads)


def test_routes_are_read_or_found(roads, tmp_path):
    demand = read(
        roads,
        tmp_path,
        """<route id="east" edges="left0A0 A0B0"/>
        <vehicle id="a" depart="10" route="east"/>
        <vehicle id="b" depart="0:01:00"><route edges="A0B0 B0C0"/></vehicle>
        <trip id="c" depart="20" from="left0A0" to="C0right0"/>
        <flow id="d" begin="0" end="600" vehsPerHour="120" route="east"/>""",
    )
    routes = [tuple(roads.streets[s] for s in route) for route in demand.routes]
    named = dict(zip(routes, demand.route_counts, strict=True))
    assert named == {("left0A0", "A0B0"): 21, ("A0B0", "B0C0"): 1, ("left0A0", "A0B0", "B0C0", "C0right0"): 1}
    assert np.array_equal(demand.departures, [10, 60, 20, 0])
    with pytest.raises(ValueError, match=r"no trip departs from second 10 to 20.*want begin=50"):
        read(roads, tmp_path, '<trip id="c" depart="50" from="left0A0" to="A0B0"/>').check_window(10, 20)
    demand.check_window(300, 400)  # the flow is still running


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no <vehicle>, <trip> or <flow>"),
        ('<vehicle id="a" depart="0"><route edges="nowhere"/></vehicle>', "id='a'> uses the street 'nowhere'"),
        ('<vehicle id="a" depart="0"><route edges="left0A0 B0C0"/></vehicle>', "from 'left0A0' to 'B0C0'"),
        ('<vehicle id="a" depart="0" route="x"/>', "id='a'> has route='x', but there is no <route>"),
        ('<vehicle id="a" depart="soon"><route edges="A0B0"/></vehicle>', "depart='soon', want a second"),
        ('<flow id="a" begin="0" end="x" period="1" from="A0B0" to="B0C0"/>', "must be numbers"),
    ],
)
def test_what_is_wrong_with_which_trip(roads, tmp_path, content, message):
    with pytest.raises(ValueError, match=f"town.rou.xml: .*{message}"):
        read(roads, tmp_path, content)


def test_ends_that_no_way_joins(network_files, tmp_path):
    net = tmp_path / "town.net.xml"
    net.write_text(re.sub(r'<connection from="left0A0"[^>]*>', "", network_files[0].read_text()))
    with pytest.raises(
        ValueError, match=r"town\.rou\.xml: a trip goes from 'left0A0' to 'B0C0', and town\.net\.xml has no"
    ):
        read(Roads.read(net), tmp_path, '<trip id="a" depart="0" from="left0A0" to="B0C0"/>')
