"""Lanes, links and lights of a network, and what is wrong with which element."""

import re
import subprocess

import numpy as np
import pytest
from factorax_traffic.city.roads import Roads

pytestmark = pytest.mark.sumo


@pytest.fixture(scope="module")
def roads(network_files):
    return Roads.read(network_files[0])


def test_lanes_links_and_phases(roads):
    assert [light.name for light in roads.lights] == ["A0", "B0", "C0"]
    assert len(roads.lanes) == 2 * len(roads.streets)
    light = roads.lights[1]
    into = {roads.streets[roads.street_of[lane]] for lane in light.lanes}
    assert into == {"A0B0", "C0B0", "bottom1B0", "top1B0"}
    assert all(len(green) > max(link.index for link in light.links) for green in light.greens)
    assert min(roads.n_phases) >= 2
    assert all(roads.following[link.origin, link.destination] for link in light.links)


def test_streets_follow_each_other_and_take_time(roads):
    number = {name: i for i, name in enumerate(roads.streets)}
    assert (number["A0B0"], number["B0C0"]) in roads.connected
    assert (number["A0B0"], number["C0right0"]) not in roads.connected
    lane = roads.lanes.index("A0B0_0")
    assert roads.seconds[number["A0B0"]] == pytest.approx(roads.lengths[lane] / roads.speeds[lane])
    inside = {lane for internal, lane in roads.crossed_from.items() if internal.startswith(":B0")}
    assert inside == set(next(light for light in roads.lights if light.name == "B0").lanes)
    assert all(np.isfinite(point).all() for shape in roads.shapes for point in shape)


def test_what_is_wrong_with_which_element(network_files, tmp_path):
    text = network_files[0].read_text()
    first = text.index("<tlLogic")
    end = text.index("</tlLogic>") + len("</tlLogic>")
    logic = text[first:end]
    cases = [
        (text.replace('version="1.', 'version="0.'), "got version '0.*netconvert"),
        (text.replace(logic, ""), "there is no <tlLogic id='A0'>"),
        (
            text.replace(logic, re.sub('state="[^"]*"', lambda m: m[0].replace("G", "r").replace("g", "r"), logic)),
            "<tlLogic id='A0'> has no green phase",
        ),
        (text.replace(logic, logic.replace('state="', 'state="" was="', 1)), "<phase>.* has no state"),
        (re.sub('(<lane id="A0B0_0"[^>]*length=")', r"\1-", text), "want a number ≥ 0"),
        (text.replace(' tl="', ' was="'), "has no light with two or more green phases"),
        ('<net version="1.9"/>', "has no <edge> with a <lane>"),
    ]
    path = tmp_path / "town.net.xml"
    for content, message in cases:
        path.write_text(content)
        with pytest.raises(ValueError, match=f"town.net.xml: .*{message}"):
            Roads.read(path)


def test_a_light_without_a_choice_keeps_its_programme(network_files, tmp_path):
    text = network_files[0].read_text()
    first, end = text.index("<tlLogic"), text.index("</tlLogic>")
    head = text[first:end].split("<phase")
    path = tmp_path / "town.net.xml"
    path.write_text(text[:first] + head[0] + "<phase" + head[1] + text[end:])
    roads = Roads.read(path)
    assert roads.uncontrolled == ("A0",)
    assert [light.name for light in roads.lights] == ["B0", "C0"]


def test_all_programmes_of_a_light_are_choices(network_files, roads, tmp_path):
    light = roads.lights[0]
    other = light.greens[0].replace("g", "r")
    assert other not in light.greens
    text = network_files[0].read_text()
    end = text.index("</tlLogic>") + len("</tlLogic>")
    second = '<tlLogic id="A0" type="static" programID="night" offset="0"><phase duration="9" state="{}"/></tlLogic>'
    both = tmp_path / "both.net.xml"
    both.write_text(text[:end] + second.format(other) + text[end:])
    assert Roads.read(both).lights[0].greens == (*light.greens, other)


def test_letters_of_pedestrians_belong_to_no_lane(tmp_path):
    from factorax_traffic.city import CityEnv
    from factorax_traffic.sumo.network import program

    net, routes = tmp_path / "walk.net.xml", tmp_path / "walk.rou.xml"
    command = [program("netgenerate"), "--grid", "--grid.x-number", "2", "--grid.y-number", "1", "--grid.length", "150"]
    command += ["--grid.attach-length", "100", "--tls.set", "A0,B0", "--sidewalks.guess", "--crossings.guess"]
    command += ["--sidewalks.guess.max-speed", "50", "-o", str(net), "--no-warnings"]
    subprocess.run(command, check=True, capture_output=True)
    assert 'function="crossing"' in net.read_text()
    routes.write_text(
        """<routes><flow id="a" from="left0A0" to="A0B0" begin="0" end="60" period="6"/>
        <person id="w" depart="1"><walk edges="left0A0 A0B0"/></person></routes>"""
    )
    env = CityEnv(net, routes, horizon=30)
    try:
        light = env.roads.lights[0]
        assert len(light.greens[0]) > 1 + max(link.index for link in light.links)
        env.reset(seed=0)
        for _ in range(3):
            *_, truncated, info = env.step(np.ones(2, int))
        assert truncated
        assert info["score"].trips == 5  # cars, and no pedestrian
    finally:
        env.close()
