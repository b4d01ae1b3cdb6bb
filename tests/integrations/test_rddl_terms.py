"""RDDL models: the names of their targets, networks with every edge, and imports without noise."""

import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import factorax as fx
from factorax.integrations import rddl
from factorax.integrations._rddl_terms import _unique

pytest.importorskip("pyRDDLGym", reason="needs pyRDDLGym: pip install '.[rddl]'")
pytest.importorskip("rddlrepository", reason="needs rddlrepository: pip install '.[rddl]'")
pytestmark = pytest.mark.rddl

SMALL = {"n_envs": 1, "n_steps": 8, "batch_size": 8}


def test_targets_are_named_after_the_fluents_that_their_terms_read():
    rooms = rddl.influence("HVAC_ippc2023", "1").network.targets
    assert rooms[0] == "heat-input[?h=h1]"
    assert {name.partition("[")[0] for name in rooms} == {"heat-input", "fan-in", "occupied+temp-zone"}
    rovers = rddl.influence("MarsRover_ippc2023", "1").network.targets
    assert "pos-x+pos-y+harvest+…[?m=m1]" in rovers
    for names in (rooms, rovers):
        assert len(set(names)) == len(names)
    assert rooms == rddl.influence("HVAC_ippc2023", "1").network.targets


def test_a_name_that_repeats_is_numbered():
    assert _unique(["temp", "heat", "temp", "constant", "temp"]) == ["temp", "heat", "temp#2", "constant#2", "temp#3"]


def test_a_dense_network_is_named_when_a_model_is_made_and_not_when_it_is_given():
    make = partial(rddl.make, "Reservoir_ippc2023", "1")
    with pytest.warns(
        fx.structure.StructureWarning, match="each of 2 actions to each of 2 targets.*reads='uncoupled'"
    ) as caught:
        fx.FactoredPPO(make, **SMALL)
    assert len(caught) == 1
    fx.FactoredPPO(make, np.ones((2, 2)), **SMALL)
    fx.FactoredPPO(partial(rddl.make, "Reservoir_ippc2023", "1", reads="uncoupled"), **SMALL)


def test_importing_pyrddlgym_is_silent():
    program = "from factorax.integrations import rddl; rddl.influence('UAV_ippc2023', '1')"
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
