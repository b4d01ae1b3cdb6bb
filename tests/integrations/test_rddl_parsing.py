"""Reading RDDL models: broken ones, and while another process writes the tables of pyRDDLGym's parser."""

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


DOMAIN = """
domain tanks {
    types { tank : object; };
    pvariables {
        water(tank) : { state-fluent, real, default = 1.0 };
        pump(tank) : { action-fluent, real, default = 0.0 };
    };
    cpfs { water'(?t) = water(?t) + pump(?t); };
    reward = -(sum_{?t : tank} [abs[water(?t)]]);
}
"""
INSTANCE = """
non-fluents two { domain = tanks; objects { tank : {t1, t2}; }; }
instance two1 { domain = tanks; non-fluents = two; max-nondef-actions = pos-inf; horizon = 5; discount = 1.0; }
"""
BROKEN = {
    "syntax": ("reward =", "reward = = ;"),
    "control characters": ("reward =", "reward = \x1b]0;title\x07\x1b[2J ="),
    "unknown variable": ("abs[water(?t)]", "abs[height(?t)]"),
    "unknown function": ("abs[water(?t)]", "absolute[water(?t)]"),
    "unknown type": ("water(tank)", "water(pond)"),
    "no transition": ("water'(?t) = water(?t) + pump(?t);", ""),
    "empty": (DOMAIN, ""),
    "binary": (DOMAIN, bytes(range(256))),
    "nested deeply": ("-(sum", "(" * 3000 + "1" + ")" * 3000 + "-(sum"),
    "long sum": ("-(sum", "1 + " * 2000 + "-(sum"),
}


def write(folder, domain):
    paths = folder / "tanks.rddl", folder / "two.rddl"
    paths[0].write_bytes(domain if isinstance(domain, bytes) else domain.encode())
    paths[1].write_text(INSTANCE)
    return paths


@pytest.mark.parametrize("read", [rddl.make, rddl.influence])
@pytest.mark.parametrize(("text", "broken"), BROKEN.values(), ids=BROKEN)
def test_broken_model_is_one_line_with_its_files_and_the_cause(text, broken, read, tmp_path):
    assert text in DOMAIN
    paths = write(tmp_path, broken if isinstance(broken, bytes) else DOMAIN.replace(text, broken))
    with pytest.raises(ValueError, match="domain, instance: ") as caught:
        read(*paths)
    message = str(caught.value)
    assert message.isprintable()
    assert all(str(path) in message for path in paths)


def test_sound_model_is_read(tmp_path):
    assert rddl.influence(*write(tmp_path, DOMAIN)).network.n_edges == 2
