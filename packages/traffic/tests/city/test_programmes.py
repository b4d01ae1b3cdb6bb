"""Programmes of SUMO's own controllers."""

from xml.etree import ElementTree as Xml

import pytest
from factorax_traffic.city.programmes import write_programmes

pytestmark = pytest.mark.sumo


def test_green_may_vary_and_yellow_does_not(network_files, tmp_path):
    write_programmes(network_files[0], "actuated", tmp_path / "a.xml", 3)
    logics = Xml.parse(tmp_path / "a.xml").getroot().findall("tlLogic")
    assert [logic.get("id") for logic in logics] == ["A0", "B0", "C0"]
    assert {logic.get("type") for logic in logics} == {"actuated"}
    for phase in logics[0].iter("phase"):
        if "y" in phase.get("state"):
            assert phase.get("duration") == "3"
            assert phase.get("minDur") is None
        else:
            assert float(phase.get("minDur")) < float(phase.get("maxDur"))
