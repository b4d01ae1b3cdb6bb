"""Networks by lag, and networks of a state."""

import numpy as np
import pytest

import factorax as fx
from factorax.structure import KArray, LaggedNetwork, StateNetwork

LINE = [("a1", "x1"), ("x1", "x2"), ("x2", "x3"), ("x1", "psi1"), ("x2", "psi2"), ("x3", "psi3")]


def test_a_hop_takes_a_step_and_what_reads_takes_none():
    found = LaggedNetwork.over(fx.InfluenceNetwork.identity(3), [*LINE, ("a2", "x2")])
    np.testing.assert_array_equal(found.lags, [[0, 2, 3], [-1, 0, 2], [-1, -1, 0]])


@pytest.mark.parametrize("local", [True, False])
def test_the_edges_of_all_lags_are_those_of_the_closure(local):
    rng = np.random.default_rng(0)
    for _ in range(50):
        n, m, states = rng.integers(1, 6, 3)
        edges = rng.random((n, m)) < 0.3
        edges[:, 0] |= ~edges.any(axis=1)
        edges[0] |= ~edges.any(axis=0)
        net = fx.InfluenceNetwork(edges)
        names = [*net.actions, *[f"x{k}" for k in range(states)], *net.targets]
        pairs = [(u, v) for u in names[: n + states] for v in names[n:] if u != v and rng.random() < 0.2]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("factorax.structure.closure.warn", lambda *_: None)
            closed = fx.close_over(net, pairs, local_actors=local)
            assert LaggedNetwork.over(net, pairs, local_actors=local).start == closed


def test_hops_along_targets_take_a_step_each():
    shifts = np.eye(4, k=1)
    found = LaggedNetwork.over(fx.InfluenceNetwork.identity(4), shifts)
    np.testing.assert_array_equal(found.lags, [[0, 1, 2, 3], [-1, 0, 1, 2], [-1, -1, 0, 1], [-1, -1, -1, 0]])
    assert (found.at(0).n_edges, found.at(1).n_edges, found.at(9).n_edges) == (4, 7, 10)


@pytest.mark.parametrize(
    ("lags", "says"),
    [([[0.5]], "whole numbers"), ([[-2]], "whole numbers"), ([[-1]], "no edge"), ([0, 1], "whole numbers")],
)
def test_bad_lags_are_refused(lags, says):
    with pytest.raises(ValueError, match=says):
        LaggedNetwork.from_lags(lags)


def test_an_edge_begins_once():
    one = fx.InfluenceNetwork.identity(2)
    with pytest.raises(ValueError, match="a1 → psi1"):
        LaggedNetwork({0: one, 3: one})
    with pytest.raises(ValueError, match="different actions"):
        LaggedNetwork({0: one, 3: fx.InfluenceNetwork.identity(3)})
    with pytest.raises(ValueError, match="whole numbers of steps"):
        LaggedNetwork({-1: one})


def test_an_array_credits_as_the_network_it_is():
    rng = np.random.default_rng(0)
    dense, psi, weights = rng.random((3, 5)), rng.normal(size=(7, 5)), rng.random(5)
    np.testing.assert_allclose(
        fx.credit(KArray(dense), psi, weights), fx.credit(fx.InfluenceNetwork(dense), psi, weights)
    )
    each = rng.random((7, 3, 5))
    want = np.stack([fx.credit(fx.InfluenceNetwork(k), x, weights) for k, x in zip(each, psi, strict=True)])
    np.testing.assert_allclose(fx.credit(KArray(each), psi, weights), want)


def test_a_function_of_the_state_must_give_a_matrix_for_each():
    net = StateNetwork(lambda obs, info: np.ones((2, 3)), fx.InfluenceNetwork.complete(2, 3))
    assert net.at(np.zeros(4), {}).shape == (2, 3)
    with pytest.raises(ValueError, match=r"want \(5, 2, 3\)"):
        net.at(np.zeros((5, 4)), {})
    with pytest.raises(TypeError, match="function"):
        StateNetwork(fx.InfluenceNetwork.complete(2, 3), fx.InfluenceNetwork.complete(2, 3))  # type: ignore
