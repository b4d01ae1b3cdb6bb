"""Names of traffic problems and of their networks: settings, files, limits, the same traffic in SUMO."""

import pytest
from factorax_traffic import Grid, influence
from factorax_traffic.families import in_sumo

from factorax.ppo.named_networks import find_network
from factorax.problems.registry import find_problem, in_simulator, leads_to


def test_traffic_takes_settings():
    simulator = find_problem("traffic:2x3,slots=20,norm=fixed,standstill=0.0,flow_inflows=true").simulator
    assert simulator.slots == 20
    traffic = simulator.traffic
    assert (traffic.rows, traffic.columns, traffic.norm, traffic.standstill) == (2, 3, "fixed", 0.0)
    assert traffic.flow_inflows


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("traffic:3x3,slot=9", "slot: no such option of traffic; want one of rows, columns"),
        ("traffic:3x3,norm=none", "norm: got 'none', want 'global', 'fixed' or 'local'"),
        ("traffic:3x3,network=nearby", "'nearby'"),
        ("traffic:0x3", "problem: .*size of at least 1"),
        ("traffic:3x3,slots=1000000000", "got slots=1000000000 in .*, want at most 100,000"),
        ("traffic:3x3,horizon=1e9", "got horizon=1000000000.0 in .*, want at most 100,000"),
        ("traffic:99999x99999", "problem"),
        ("sumo:town.net.xml", "want two files"),
        ("resco:cologne9", "cologne8"),
    ],
)
def test_a_wrong_name_says_what_is_wanted(name, said):
    with pytest.raises(ValueError, match=said):
        find_problem(name)


def test_only_networks_from_files_read_files():
    for name in ("traffic:3x3", "traffic", "sumo:3x3", "sumo:3x3,norm=fixed", "sumo", "resco:cologne8"):
        assert leads_to(name) == ""
    for name in ("sumo:a.net.xml,b.rou.xml", "sumo:/etc/a.xml,b", "sumo:a.net.xml.gz,b", "sumo:~/a.xml,b.xml"):
        assert leads_to(name) == "files to be read"
    for name in ("traffic.x:y", ":traffic"):
        assert leads_to(name) == "code to be run"


def test_the_same_traffic_in_sumo():
    assert in_sumo("traffic:3x3") == "sumo:3x3"
    assert in_simulator("sumo:2x6,norm=fixed", "sumo") == "sumo:2x6,norm=fixed"
    with pytest.raises(ValueError, match="sim: got sumo for 'chain:3', which has no other simulators"):
        in_simulator("chain:3", "sumo")


def test_networks_by_name():
    traffic = find_problem("traffic:2x6")
    assert find_network(traffic, "own") is None
    assert find_network(traffic, "n-level:2") == influence(Grid(2, 6), "n-level", n=2)
    assert find_network(traffic, "n-level-all-rows:1") == influence(Grid(2, 6), "n-level", n=1, rows="both")
    assert find_network(traffic, "decay:0.25") == influence(Grid(2, 6), "decay", alpha=0.25)
    with pytest.raises(ValueError, match="network: got 'corridor:3', want a number only after n-level: or decay:"):
        find_network(traffic, "corridor:3")
    with pytest.raises(ValueError, match="network: got 'nearby', want 'in', 'incident'"):
        find_network(traffic, "nearby")


def test_a_curriculum_of_named_networks():
    traffic = find_problem("traffic:2x6")
    found = find_network(traffic, "curriculum:n-level:0,own,complete", steps=300)
    assert found.networks == (influence(Grid(2, 6), "n-level"), traffic.network, influence(Grid(2, 6), "complete"))
    assert found.boundaries == (0, 100, 200)
