"""Reading RDDL models while another process writes the tables of pyRDDLGym's parser, as the first use of it does."""

import sys
import types

import pytest

from factorax.integrations import rddl

pytest.importorskip("pyRDDLGym", reason="needs pyRDDLGym: pip install '.[rddl]'")
pytest.importorskip("rddlrepository", reason="needs rddlrepository: pip install '.[rddl]'")
pytestmark = pytest.mark.rddl


def test_half_written_tables_are_not_used(monkeypatch):
    half = types.ModuleType("parsetab")
    half._tabversion = "3.10"
    monkeypatch.setitem(sys.modules, "pyRDDLGym.core.parser.parsetab", half)
    assert rddl.influence("UAV_ippc2023", "2").network.shape[0] == 6
