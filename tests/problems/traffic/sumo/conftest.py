"""A small road network of SUMO, with its routes."""

import subprocess

import pytest


@pytest.fixture(scope="module")
def network_files(tmp_path_factory):
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
