"""Files of SUMO: the streets and influence networks read from them, and what is wrong with which file."""

import numpy as np
import pytest
from factorax_traffic.sumo import OwnTrafficEnv
from factorax_traffic.sumo.files import Streets


@pytest.mark.sumo
def test_presets_come_from_the_graph(network_files):
    streets = Streets.read(*network_files)
    assert set(streets.lights) == {"A0", "B0", "C0"}

    def of(preset, light, **options):
        net = streets.influence(preset, **options)
        return {net.targets[j] for j in np.flatnonzero(net.to_dense()[net.actions.index(light)])}

    into = {"left0A0", "bottom0A0", "top0A0", "B0A0"}
    away = {"A0left0", "A0bottom0", "A0top0", "A0B0"}
    assert of("in", "A0") == into
    assert of("incident", "A0") == into | away
    assert of("n-level", "A0", n=1) == of("incident", "A0") | of("incident", "B0")
    assert of("corridor", "A0") == into | away | {"B0C0", "C0right0"}
    assert len(of("complete", "A0")) == len(streets.edges)
    assert streets.hops[streets.lights.index("A0"), streets.lights.index("C0")] == 2


@pytest.mark.sumo
def test_what_is_wrong_with_which_file(network_files, tmp_path):
    net, routes = network_files
    text = net.read_text()
    cases = [
        (net, tmp_path / "none.rou.xml", None, r"none\.rou\.xml: no such file"),
        (
            net,
            tmp_path / "a.rou.xml",
            "<routes><route id='x' edges='left0A0 nowhere'/></routes>",
            "'nowhere', which is not",
        ),
        (net, tmp_path / "b.rou.xml", "<routes><route id='x' edges='left0A0 B0C0'/></routes>", "not connected"),
        (net, tmp_path / "c.rou.xml", "<routes>", r"c\.rou\.xml: is not valid XML"),
        (tmp_path / "d.net.xml", routes, "<net version='0.9'/>", "got version '0.9', want 1.x"),
        (tmp_path / "e.net.xml", routes, "<routes/>", "got <routes>, want a SUMO file that begins with <net>"),
        (tmp_path / "f.net.xml", routes, text.replace(' tl="', ' was="'), "has no traffic lights"),
    ]
    for a, b, content, message in cases:
        if content is not None:
            (b if a == net else a).write_text(content)
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            Streets.read(a, b)


def test_a_namespace_that_is_not_declared(tmp_path):
    (tmp_path / "a.net.xml").write_text('<net version="1.2" x:y="z"/>')
    with pytest.raises(ValueError, match=r"a\.net\.xml: is not valid XML \(unbound prefix"):
        Streets.read(tmp_path / "a.net.xml", tmp_path / "a.rou.xml")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        OwnTrafficEnv(tmp_path / "town.net.xml", tmp_path / "town.rou.xml")
