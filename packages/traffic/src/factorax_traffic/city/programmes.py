"""Programmes of SUMO's own controllers for the lights of a network."""

from pathlib import Path
from typing import Literal
from xml.etree import ElementTree as Xml

from ..sumo.files import parse
from .phases import is_green

LEAST_GREEN, MOST_GREEN = 5, 50
"""Seconds of green of SUMO's actuated and delay-based lights: SUMO's own defaults when netconvert makes them."""


def write_programmes(net: Path, kind: Literal["actuated", "delay_based"], to: Path, yellow: int) -> None:
    """Write the programmes of a network as actuated or delay-based programmes of SUMO, with `yellow` seconds of
    yellow."""
    additional = Xml.Element("additional")
    for logic in parse(net, "net").iter("tlLogic"):
        phases = [phase.get("state", "") for phase in logic.iter("phase")]
        copy = Xml.SubElement(additional, "tlLogic", id=logic.get("id", ""), type=kind, programID="own", offset="0")
        for state, phase in zip(phases, logic.iter("phase"), strict=True):
            copied_phase = Xml.SubElement(copy, "phase", state=state, duration=phase.get("duration", "30"))
            if is_green(state):
                copied_phase.set("minDur", str(LEAST_GREEN))
                copied_phase.set("maxDur", str(MOST_GREEN))
            elif "y" in state.lower():
                copied_phase.set("duration", str(yellow))
    to.write_bytes(Xml.tostring(additional))
