"""What the command line understands as a problem and as a network."""

import pytest

from factorax import InfluenceNetwork
from factorax.learning.naming import find_network, find_problem
from factorax.problems.traffic import Grid, influence


def test_problems_by_name():
    assert find_problem("queues:2x3").network.shape == (6, 6)
    assert find_problem("contextual-bandit").name == "contextual-bandit"
    assert find_problem("factorax.problems:chain").name == "chain"
    assert find_problem("CartPole-v1")().spec.id == "CartPole-v1"


def test_traffic_takes_settings():
    simulator = find_problem("traffic:2x3,slots=20,norm=fixed,standstill=0.0,flow_inflows=true").simulator
    assert simulator.slots == 20
    traffic = simulator.traffic
    assert (traffic.rows, traffic.columns, traffic.norm, traffic.standstill) == (2, 3, "fixed", 0.0)
    assert traffic.flow_inflows


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("queues:2xtwo", "got the size '2xtwo' in 'queues:2xtwo', want numbers, as in queues:4"),
        ("traffic:3x3,slot=9", "no such setting"),
        ("traffic:3x3,norm", "got the setting 'norm', want name=value"),
        ("traffic:3x3,norm=none", "norm: got 'none', want one of global, fixed, local"),
        ("sumo:town.net.xml", "want two files"),
        ("nothing", "unknown problem 'nothing'"),
        ("no.such:thing", "cannot import 'no.such:thing'"),
    ],
)
def test_what_is_wrong_with_a_name(name, said):
    with pytest.raises(ValueError, match=said):
        find_problem(name)


def test_networks_by_name(tmp_path):
    traffic, queues = find_problem("traffic:2x6"), find_problem("queues:2x2")
    assert find_network(traffic, "own") is None
    assert find_network(queues, "complete") == InfluenceNetwork.complete(4, 4)
    assert find_network(find_problem("CartPole-v1"), "complete") == InfluenceNetwork.complete(1, 1)
    assert find_network(traffic, "n-level:2") == influence(Grid(2, 6), "n-level", n=2)
    assert find_network(traffic, "decay:0.25") == influence(Grid(2, 6), "decay", alpha=0.25)
    path = tmp_path / "k.json"
    InfluenceNetwork.identity(3).save(path)
    assert find_network(queues, str(path)) == InfluenceNetwork.identity(3)
    with pytest.raises(ValueError, match="network: got 'corridor', want own, complete, or a file"):
        find_network(queues, "corridor")
    with pytest.raises(ValueError, match="network: got 'corridor:3', want a number after n-level: or decay: alone"):
        find_network(traffic, "corridor:3")
    with pytest.raises(ValueError, match="preset: got 'nearby', want one of in, incident"):
        find_network(traffic, "nearby")
