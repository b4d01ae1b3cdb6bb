import pytest

from factorax import InfluenceNetwork
from factorax.structure import gallery

EDGES = {
    "fork": [("a1", "psi1"), ("a1", "psi2")],
    "collider": [("a1", "psi1"), ("a2", "psi1")],
    "fork/collider": [("a1", "psi1"), ("a1", "psi2"), ("a2", "psi2")],
    "complete": [("a1", "psi1"), ("a1", "psi2"), ("a2", "psi1"), ("a2", "psi2")],
    "three actions": [("a1", "psi0"), ("a1", "psi1"), ("a2", "psi0"), ("a2", "psi1"), ("a3", "psi1"), ("a3", "psi2")],
    "search bandit": [(f"a{i}", target) for i in range(1, 5) for target in (f"Delta{i}", "zeta")],
}


@pytest.mark.parametrize("name", EDGES)
def test_networks_have_the_edges_that_the_paper_draws(name):
    assert sorted(gallery.PAPER[name]().edges()) == sorted(EDGES[name])


def test_the_gallery_holds_nothing_else():
    assert set(gallery.PAPER) == set(EDGES)


def test_the_factored_figure_is_the_minimum_factorisation():
    net = gallery.three_actions()
    factored = InfluenceNetwork([[1, 1, 0], [0, 1, 1]], ["a1+a2", "a3"], ["psi0", "psi1", "psi2"])
    assert net.factor(net.minimum_factorisation()) == factored


def test_the_search_bandit_shares_its_penalty_among_the_first_k():
    net = gallery.search_bandit(4, 3)
    assert net.partition_maps["zeta"].indices == (0, 1, 2)
    assert net.partition_maps["Delta4"].indices == (3,)
    assert net.actions == ("a1", "a2", "a3", "a4")


def test_a_search_bandit_without_penalty_is_the_identity():
    net = gallery.search_bandit(3, 0)
    assert net == InfluenceNetwork.identity(3).relabel(targets=["Delta1", "Delta2", "Delta3"])


def test_a_search_bandit_of_one_action_is_a_fork():
    assert gallery.search_bandit(1).relabel(targets=["psi1", "psi2"]) == gallery.fork()


@pytest.mark.parametrize(("n", "k"), [(0, None), (3, 4), (3, -1)])
def test_an_impossible_search_bandit_is_refused(n, k):
    with pytest.raises(ValueError, match=r"^(n: got 0|k: got -1|k: got 4), want a"):
        gallery.search_bandit(n, k)
