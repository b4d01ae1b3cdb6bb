"""Files for SUMO from strangers: nothing in them makes SUMO touch another file."""

import gzip
import os
import random
from pathlib import Path

import pytest
from factorax_traffic.city import CityEnv
from factorax_traffic.city.demand import Demand
from factorax_traffic.city.roads import Roads
from factorax_traffic.sumo.safe_xml import copy_checked, parse, read_xml

NET = '<net version="1.20"><edge id="a"><lane id="a_0" length="9"/></edge>{}</net>'
ROUTES = '<routes><vType id="car">{}</vType><vehicle id="v" type="car" depart="0"/></routes>'
HARMLESS = {
    "net": [
        '<tlLogic id="a" type="actuated" programID="0" offset="0"><param key="max-gap" value="3"/>'
        '<phase duration="3" state="G" name="x"/><condition id="c" value="1"/></tlLogic>',
        '<param key="origId" value="../../etc"/><roundabout nodes="a" edges="b"/>',
        '<location netOffset="0,0" convBoundary="0,0,1,1" origBoundary="0,0,1,1" projParameter="!"/>',
        '<location projParameter="-"/><location projParameter="."/>',
        '<location projParameter="+proj=utm +zone=32 +ellps=WGS84 +datum=WGS84 +units=m +no_defs"/>',
        '<location projParameter="+proj=tmerc +lat_0=0 +lon_0=9 +k=1 +x_0=3.5e6 +towgs84=598.1,73.7,418.2 +no_defs "/>',
        "<edge>" + "<lane/>" + " " * 3 * 2**20 + "</edge>",
    ],
    "routes": ['<param key="has.rerouting.device" value="true"/><param key="device.battery.capacity" value="1"/>'],
}
HARMFUL = {
    "net": [
        '<inductionLoop id="d" lane="a_0" pos="1" period="1" file="victim"/>',
        '<e1Detector id="d" lane="a_0" pos="1" period="1" file="victim"/>',
        '<laneAreaDetector id="d" lane="a_0" pos="1" endPos="5" period="1" file="victim"/>',
        '<entryExitDetector id="d" period="1" file="victim"/>',
        '<instantInductionLoop id="d" lane="a_0" pos="1" file="victim"/>',
        '<edgeData id="d" file="victim"/>',
        '<laneData id="d" file="victim"/>',
        '<routeProbe id="d" edge="a" period="1" file="victim"/>',
        '<vTypeProbe id="d" type="" period="1" file="victim"/>',
        '<calibrator id="d" edge="a" pos="0" output="victim"/>',
        '<timedEvent type="SaveTLSStates" source="a" dest="victim"/>',
        '<include href="other.xml"/>',
        '<routes><vType id="x"/></routes>',
        '<tlLogic id="a" type="actuated" programID="0" offset="0"><param key="file" value="victim"/></tlLogic>',
        '<tlLogic id="a" type="swarm" programID="0" offset="0"/>',
        '<edge id="b" outputFile="victim"/>',
        '<poly id="p" imgFile="victim"/>',
        '<x:edgeData xmlns:x="u" id="d" file="victim"/>',
        '<location projParameter="+init=/victim:1"/>',
        '<location projParameter="+init=epsg:4326"/>',
        '<location projParameter="+proj=pipeline +step +proj=hgridshift +grids=/victim"/>',
        '<location projParameter="+proj=utm +zone=32 +nadgrids=@null"/>',
        '<location projParameter="+proj=utm +zone=32 +geoidgrids=victim.gtx"/>',
        '<location projParameter="+proj=tinshift +file=victim.json"/>',
        '<location projParameter="+proj=defmodel +model=victim.json"/>',
        '<location projParameter="+ellps=../victim"/>',
        '<location projParameter="+proj=utm\nvictim"/>',
        '<location projParameter="EPSG:4326"/>',
        '<location projParameter="/victim"/>',
        '<location projParameter=""/>',
        '<x:location xmlns:x="u" x:projParameter="/victim"/>',
    ],
    "routes": [
        '<param key="device.ssm.file" value="victim"/>',
        '<param key="has.ssm.device" value="true"/>',
        '<param key="has.toc.device" value="true"/>',
        '<param key="device.fcd-replay.files" value="victim"/>',
        '<param key=" device.SSM.range" value="1"/>',
        '<include href="other.xml"/>',
        '<inductionLoop id="d" lane="a_0" pos="1" period="1" file="victim"/>',
    ],
}
FORMS = {"net": NET, "routes": ROUTES}


@pytest.mark.parametrize(("root", "part"), [(root, part) for root, parts in HARMLESS.items() for part in parts])
def test_streets_lights_and_vehicles_are_read(root, part, tmp_path):
    path = tmp_path / "a.xml"
    path.write_text('<?xml version="1.0" encoding="UTF-8"?>\n<!-- generated -->' + FORMS[root].format(part))
    assert read_xml(path, root) == path.read_bytes()
    copy_checked(path, root, tmp_path / "copy.xml")
    assert (tmp_path / "copy.xml").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(("root", "part"), [(root, part) for root, parts in HARMFUL.items() for part in parts])
def test_what_may_touch_other_files_is_refused(root, part, tmp_path):
    path = tmp_path / "a.xml"
    path.write_text(FORMS[root].format(part))
    with pytest.raises(ValueError, match=r"a\.xml: has .*which may make SUMO read or write other files; want only "):
        read_xml(path, root)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'<!DOCTYPE net [<!ENTITY a "b">]><net>&a;</net>', "has a DOCTYPE"),
        (b'<!DOCTYPE net SYSTEM "http://x/y.dtd"><net/>', "has a DOCTYPE"),
        (b'<?xml version="1.0" encoding="IBM037"?><net/>', "IBM037|is not valid XML"),
        (b'<?xml version="1.0" encoding="windows-1252"?><net/>', "got the encoding 'windows-1252', want UTF-8"),
        (b'<?xml version="1.0" encoding="nonsense"?><net/>', "is not valid XML|encoding"),
        (gzip.compress(b"<net/>", mtime=0), "is compressed, want plain XML; unpack it"),
        (b"<net>" + b"<edge>" * 100 + b"</edge>" * 100 + b"</net>", "nested 32 deep"),
        (b"<additional/>", "got <additional>, want a SUMO file that begins with <net>"),
        (b"<net>" + b"<edge " + b" ".join(b'a%d=""' % i for i in range(120_000)) + b"/></net>", "tag of more than"),
        (b'<net a="' + b"x" * 2**21 + b'"/>', "tag of more than"),
        (b"<net>" + b"".join(b'<edge a%d=""/>' % i for i in range(2000)) + b"</net>", "1000 different names"),
        (b'<net version="1.2" x:y="z"/>', "unbound prefix"),
        (b"", "is not valid XML"),
        (b"\x00\xff", "is not valid XML"),
    ],
)
def test_other_tricks_are_refused(data, message, tmp_path):
    path = tmp_path / "a.net.xml"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message):
        parse(path, "net")


def test_attributes_are_counted_before_they_fill_the_memory(tmp_path, monkeypatch):
    path = tmp_path / "a.net.xml"
    path.write_text("<net>" + '<edge id="" from="" to=""/>' * 100 + "</net>")
    assert read_xml(path, "net")
    monkeypatch.setattr("factorax_traffic.sumo.safe_xml._MOST_ATTRIBUTES", 299)
    with pytest.raises(ValueError, match="at most 299 attributes"):
        read_xml(path, "net")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_and_devices_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.net.xml")
    for path in (tmp_path / "pipe.net.xml", Path("/dev/zero"), tmp_path):
        with pytest.raises(ValueError, match="is not a regular file"):
            read_xml(path, "net")


@pytest.mark.sumo
@pytest.mark.parametrize("part", ["inductionLoop", "edgeData", "tlLogic", "ssm"])
def test_sumo_overwrites_no_file(part, network_files, tmp_path, monkeypatch):
    """Each of these made SUMO replace the content of a file."""
    net, routes = (path.read_text() for path in network_files)
    monkeypatch.chdir(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("all of it")
    if part == "ssm":
        routes = routes.replace("<flow", '<vType id="t"><param key="has.ssm.device" value="true"/><param '
                                f'key="device.ssm.file" value="{victim}"/></vType><flow type="t"', 1)  # fmt: skip
    elif part == "tlLogic":
        net = net.replace('type="static"', 'type="actuated"')
        lines = f'<param key="file" value="{victim}"/><param key="freq" value="1"/><phase'
        net = net.replace('<phase duration="42"', '<phase duration="42" minDur="5" maxDur="50"').replace(
            "<phase", lines, 1
        )
    else:
        element = {
            "inductionLoop": f'<inductionLoop id="d" lane="A0B0_0" pos="1" period="1" file="{victim}"/>',
            "edgeData": f'<edgeData id="d" period="1" file="{victim}"/>',
        }
        net = net.replace("</net>", element[part] + "</net>")
    (tmp_path / "a.net.xml").write_text(net)
    (tmp_path / "a.rou.xml").write_text(routes)
    with pytest.raises(ValueError, match="which may make SUMO read or write other files"):
        play(CityEnv("a.net.xml", "a.rou.xml"))
    assert victim.read_text() == "all of it"


def play(env):
    try:
        env.reset(seed=0)
        for _ in range(20):
            env.step(env.action_space.sample() * 0)
    finally:
        env.close()


@pytest.mark.sumo
def test_names_that_sumo_would_take_apart(network_files, tmp_path, monkeypatch):
    """SUMO splits names of files at commas and expands variables in them; ours are plain names."""
    monkeypatch.chdir(tmp_path)
    for name, source in zip(("${HOME}.net.xml", "a,b.rou.xml"), network_files, strict=True):
        (tmp_path / name).write_bytes(source.read_bytes())
    play(CityEnv("${HOME}.net.xml", "a,b.rou.xml"))


TOWN = """<net version="1.20">
    <edge id="a" from="x" to="y"><lane id="a_0" index="0" speed="13.9" length="90.5" shape="0,0 90,0"/></edge>
    <edge id="b" from="y" to="z"><lane id="b_0" index="0" speed="13.9" length="90.5" shape="90,0 180,0"/></edge>
    <tlLogic id="y" type="static" programID="0" offset="0"><phase duration="9" state="Gr"/>
        <phase duration="9" state="rG"/></tlLogic>
    <connection from="a" to="b" fromLane="0" toLane="0" via=":y_0_0" tl="y" linkIndex="0"/>
</net>"""
DEMAND = '<routes><route id="r" edges="a b"/><flow id="f" route="r" begin="0" end="9" period="3"/></routes>'
JUNK = [b"0", b"9" * 30, b"\xff", b'"', b"<edge>", b"-", b"NaN", b"\x00" * 8, b" a=''"]


@pytest.mark.parametrize("name", ["town.net.xml", "town.rou.xml"])
def test_damaged_files_are_read_or_refused_with_a_value_error(name, tmp_path):
    (tmp_path / "town.net.xml").write_text(TOWN)
    (tmp_path / "town.rou.xml").write_text(DEMAND)
    whole, refused = (tmp_path / name).read_bytes(), 0
    for k in range(400):
        rng, data = random.Random(f"{name} {k}"), bytearray(whole)
        for _ in range(rng.choice([1, 1, 2, 8])):
            at = rng.randrange(len(data))
            data[at : at + rng.choice([0, 1, 1, 8])] = rng.choice(JUNK)
        (tmp_path / name).write_bytes(data)
        try:
            Demand.read(tmp_path / "town.rou.xml", Roads.read(tmp_path / "town.net.xml"))
        except ValueError as error:
            refused += len(str(error)) > 0
    assert 100 < refused < 400
