"""Networks of RESCO by name."""

import shutil
import sys

import pytest
from factorax_traffic.city.resco import NAMES, resco_files

from factorax.problems import find_problem


@pytest.fixture
def installed(network_files, tmp_path, monkeypatch):
    """A package like sumo-rl with one network."""
    folder = tmp_path / "sumo_rl" / "nets" / "RESCO" / "grid4x4"
    folder.mkdir(parents=True)
    (tmp_path / "sumo_rl" / "__init__.py").write_text("raise ImportError('it must not be imported')")
    shutil.copy(network_files[0], folder / "grid4x4.net.xml")
    shutil.copy(network_files[1], folder / "grid4x4_1.rou.xml")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return folder


@pytest.mark.sumo
def test_a_network_by_name(installed):
    assert resco_files("grid4x4") == (installed / "grid4x4.net.xml", installed / "grid4x4_1.rou.xml")
    env = find_problem("resco:grid4x4,interval=5,network=in")()
    assert (env.interval, env.begin, env.horizon) == (5, NAMES["grid4x4"], 3600)
    assert (env.detectors.reach, env.detectors.zones) == (400.0, 8)
    env.close()
    env = find_problem("resco:grid4x4,reach=200")()
    assert (env.detectors.reach, env.detectors.zones) == (200.0, 8)
    env.close()
    with pytest.raises(ValueError, match=r"got 'cologne8', but sumo-rl is installed in .*, without that network"):
        find_problem("resco:cologne8")
    with pytest.raises(ValueError, match="got 'resco:grid4x4,speed=3', want only settings that exist"):
        find_problem("resco:grid4x4,speed=3")()


def test_what_is_missing(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"sumo-rl is not installed.*pip install --no-deps sumo-rl==1\.4\.5"):
        find_problem("resco:cologne8")
    with pytest.raises(ValueError, match="resco: got 'berlin', want one of cologne1"):
        find_problem("resco:berlin")
