"""Networks of one's own: three lights in a row with turns, made by SUMO's netgenerate; and files that are wrong."""

import subprocess

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from factorax.learning import check_problem

pytestmark = pytest.mark.sumo


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A grid of three by one lights with turns and two lanes, and two routes through it, one of them with a turn."""
    from factorax.problems.traffic.sumo.network import program

    folder = tmp_path_factory.mktemp("own")
    net, routes = folder / "own.net.xml", folder / "own.rou.xml"
    command = [program("netgenerate"), "--grid", "--grid.x-number", "3", "--grid.y-number", "1", "--grid.length", "150"]
    command += ["--grid.attach-length", "100", "-L", "2", "--tls.set", "A0,B0,C0", "-o", str(net)]
    subprocess.run([*command, "--no-warnings"], check=True, capture_output=True)
    routes.write_text(
        """<routes>
        <route id="east" edges="left0A0 A0B0 B0C0 C0right0"/>
        <route id="turn" edges="bottom1B0 B0C0 C0right0"/>
        <flow id="a" route="east" begin="0" end="300" period="6"/>
        <flow id="b" route="turn" begin="0" end="300" period="10"/>
        </routes>"""
    )
    return net, routes


@pytest.fixture
def env(files):
    from factorax.problems.traffic.sumo.own import OwnTrafficEnv

    made = OwnTrafficEnv(*files, horizon=50)
    yield made
    made.close()


def test_presets_come_from_the_graph(env):
    streets = env.streets
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


@pytest.mark.filterwarnings("ignore:.*Box.*")
def test_gymnasiums_own_check_and_ours(env, files):
    check_env(env, skip_render_check=True)
    env.close()
    from factorax.problems.traffic.sumo.own import OwnTrafficEnv

    check_problem(lambda: OwnTrafficEnv(*files, horizon=50), steps=60)


def test_green_lasts_until_it_is_asked_and_yellow_as_the_programme_says(env):
    env.reset(seed=0)
    light = env.streets.lights.index("B0")
    shown = env.streets.phases[light]
    request = np.zeros(3, int)
    seen = []
    for t in range(100):
        request[light] = t == 60
        env.step(request)
        seen.append(env.phase[light])
    assert set(seen[:60]) == {0}
    assert "y" in shown[seen[60]]
    assert seen[-1] != 0
    assert "y" not in shown[seen[-1]]


def test_targets_add_up_and_all_cars_belong_to_a_street(env):
    env.reset(seed=0)
    for t in range(50):
        _, reward, terminated, truncated, info = env.step(np.full(3, t % 10 == 0))
        assert reward == pytest.approx(info["vector_reward"].sum(), rel=1e-5)
        assert info["cars"] == len(env.simulation.cars()[0])
        assert not terminated
    assert truncated
    assert info["cars"] > 3


def test_what_is_wrong_with_which_file(files, tmp_path):
    from factorax.problems.traffic.sumo.own import OwnTrafficEnv

    net, routes = files
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
        (net, tmp_path / "c.rou.xml", "<routes>", r"c\.rou\.xml: is no XML"),
        (tmp_path / "d.net.xml", routes, "<net version='0.9'/>", "got version '0.9', want 1.x"),
        (tmp_path / "e.net.xml", routes, "<routes/>", "got <routes>, want a SUMO file that begins with <net>"),
        (tmp_path / "f.net.xml", routes, text.replace(' tl="', ' was="'), "has no traffic lights"),
    ]
    for a, b, content, message in cases:
        if content is not None:
            (b if a == net else a).write_text(content)
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            OwnTrafficEnv(a, b)
