"""Networks by name."""

import pytest
from factorax_traffic.grid import Grid
from factorax_traffic.influence import influence
from small_settings import SMALL

from factorax import InfluenceNetwork
from factorax.learning import FactoredPPO
from factorax.learning.named_networks import find_network, is_file
from factorax.problems.registry import find_problem


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
    with pytest.raises(ValueError, match="network: got 'corridor:3', want a number only after n-level: or decay:"):
        find_network(traffic, "corridor:3")
    with pytest.raises(ValueError, match="network: got 'nearby', want 'in', 'incident'"):
        find_network(traffic, "nearby")


def test_a_curriculum_by_name_divides_the_steps():
    traffic = find_problem("traffic:2x6")
    found = find_network(traffic, "curriculum:n-level:0,own,complete", steps=300)
    wanted = influence(Grid(2, 6), "n-level", n=0), traffic.network, influence(Grid(2, 6), "complete")
    assert found.stages == wanted
    assert found.boundaries == (100, 200)
    backwards = find_network(traffic, "curriculum:complete,incident", steps=2)
    assert backwards.stages == (wanted[2], influence(Grid(2, 6), "incident"))
    with pytest.raises(ValueError, match="steps of training are not known"):
        find_network(traffic, "curriculum:incident,complete")


def test_a_model_takes_a_curriculum_by_name():
    model = FactoredPPO("chain:3", "curriculum:near,own", **SMALL, total_timesteps=1000)
    assert model.spec.network.boundaries == (500,)
    assert model.network == InfluenceNetwork.identity(3)


def test_what_is_a_file():
    assert is_file("k.json")
    assert is_file("adaptive:k.json")
    assert is_file("folder/k")
    assert not any(map(is_file, ("own", "n-level:2", "decay:0.5", "adaptive:own", "curriculum:near,decay:0.5")))
