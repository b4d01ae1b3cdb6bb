"""Programs of SUMO that are missing: the error says what to install."""

import sys

import pytest
from factorax_traffic import Traffic
from factorax_traffic.sumo import TrafficEnv


@pytest.fixture
def no_sumo(monkeypatch):
    for name in ("libsumo", "sumo", "traci"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("no_sumo")
def test_what_to_install_is_said():
    with pytest.raises(ImportError, match=r"pip install 'factorax-traffic\[sumo\]'. The lane simulator"):
        TrafficEnv(Traffic(1, 1))
