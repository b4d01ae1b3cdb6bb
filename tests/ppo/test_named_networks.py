"""Networks by name."""

import dataclasses

import numpy as np
import pytest
from small_settings import SMALL

from factorax import InfluenceNetwork
from factorax.ppo import FactoredPPO
from factorax.ppo.named_networks import find_network, is_file
from factorax.problems.registry import find_problem
from factorax.problems.toy_problems import Chain


def test_networks_by_name(tmp_path):
    chain, queues = find_problem("chain:4"), find_problem("queues:2x2")
    assert find_network(chain, "own") is None
    assert find_network(queues, "complete") == InfluenceNetwork.complete(4, 4)
    assert find_network(find_problem("CartPole-v1"), "complete") == InfluenceNetwork.complete(1, 1)
    assert find_network(chain, "near") == InfluenceNetwork.identity(4)
    path = tmp_path / "k.json"
    InfluenceNetwork.identity(3).save(path)
    assert find_network(queues, str(path)) == InfluenceNetwork.identity(3)
    with pytest.raises(ValueError, match="network: got 'corridor', want own, complete, or a file"):
        find_network(queues, "corridor")
    with pytest.raises(ValueError, match="network: got 'near:3'"):
        find_network(chain, "near:3")
    with pytest.raises(ValueError, match="network: got 'nearby', want 'near' or 'lagged'"):
        find_network(chain, "nearby")


def test_the_value_after_the_colon_goes_to_the_problem():
    class WithDecay(Chain):
        def influence(self, preset, value):
            return InfluenceNetwork(np.full((2, 2), value)) if preset == "decay" else self.network

    problem = find_problem("chain:2")
    problem = WithDecay(**{field.name: getattr(problem, field.name) for field in dataclasses.fields(problem)})
    assert find_network(problem, "decay:0.25") == InfluenceNetwork(np.full((2, 2), 0.25))


def test_a_curriculum_by_name_divides_the_steps():
    chain = find_problem("chain:4")
    found = find_network(chain, "curriculum:near,own,complete", steps=300)
    near = InfluenceNetwork.identity(4)
    complete = InfluenceNetwork.complete(4, 4).relabel(near.actions, near.targets)
    assert found.networks == (near, chain.network, complete)
    assert found.boundaries == (0, 100, 200)
    backwards = find_network(chain, "curriculum:complete,near", steps=2)
    assert backwards.networks == (complete, near)
    with pytest.raises(ValueError, match="steps of training are not known"):
        find_network(chain, "curriculum:near,complete")


def test_a_model_takes_a_curriculum_by_name():
    model = FactoredPPO("chain:3", "curriculum:near,own", **SMALL, total_timesteps=1000)
    assert model.spec.network.boundaries == (0, 500)
    assert model.network == InfluenceNetwork.identity(3)


def test_what_is_a_file():
    assert is_file("k.json")
    assert is_file("adaptive:k.json")
    assert is_file("folder/k")
    assert not any(map(is_file, ("own", "n-level:2", "decay:0.5", "adaptive:own", "curriculum:near,decay:0.5")))
