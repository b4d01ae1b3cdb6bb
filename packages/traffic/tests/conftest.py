"""SUMO, where it is installed."""

import importlib.util
import subprocess

import pytest


def pytest_collection_modifyitems(items):
    if importlib.util.find_spec("libsumo") is None or importlib.util.find_spec("sumo") is None:
        for item in items:
            if item.get_closest_marker("sumo"):
                item.add_marker(pytest.mark.skip(reason="needs SUMO: pip install 'factorax-traffic[sumo]'"))


@pytest.fixture
def sumo():
    """Make environments in SUMO; each is closed when the next is made, and at the end."""
    from factorax_traffic import Traffic
    from factorax_traffic.sumo import TrafficEnv

    envs = []

    def make(rows=3, columns=3, *, program="green", stochastic=False, flow_persist=False, **settings):
        while envs:
            envs.pop().close()
        traffic = Traffic(rows, columns, **settings)
        envs.append(TrafficEnv(traffic, program=program, stochastic=stochastic, flow_persist=flow_persist))
        return envs[-1]

    yield make
    while envs:
        envs.pop().close()


@pytest.fixture(scope="module")
def network_files(tmp_path_factory):
    """A grid of three by one lights with turns and two lanes, and two routes through it, one of them with a turn."""
    from factorax_traffic.sumo.network import program

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
