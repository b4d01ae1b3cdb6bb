"""Networks that depend on the state."""

import itertools

import numpy as np
import pytest

import factorax as fx
from factorax.structure import StateNetwork


def test_a_function_of_the_state_must_give_a_matrix_for_each():
    net = StateNetwork(lambda obs, info: np.ones((2, 3)), fx.InfluenceNetwork.complete(2, 3))
    assert net.at(np.zeros(4), {}).shape == (2, 3)
    with pytest.raises(ValueError, match=r"want \(5, 2, 3\)"):
        net.at(np.zeros((5, 4)), {})
    with pytest.raises(TypeError, match="function: got InfluenceNetwork, want a function of observations and info"):
        StateNetwork(fx.InfluenceNetwork.complete(2, 3), fx.InfluenceNetwork.complete(2, 3))  # type: ignore
    with pytest.raises(TypeError, match="support: got list, want an InfluenceNetwork"):
        StateNetwork(lambda obs, info: obs, [[1, 0]])  # type: ignore


def test_given_the_state_absent_edges_have_no_bias_and_given_the_action_they_have():
    """Two switches; the second is dead in one of two states. ψ1 = a1 + s a2, ψ2 = a2 s, exactly enumerated."""
    theta = np.array([0.4, -0.3])
    p = 1 / (1 + np.exp(-theta))
    estimates = {"state": np.zeros(2), "action": np.zeros(2)}
    true = np.zeros(2)
    for s, a1, a2 in itertools.product([0, 1], repeat=3):
        a = np.array([a1, a2])
        chance = 0.5 * np.prod(np.where(a == 1, p, 1 - p))
        psi = np.array([a1 + s * a2, 2.0 + s * a2])
        score = a - p
        true += chance * score * psi.sum()
        matrices = {"state": [[1, 0], [s, s]], "action": [[1, 0], [a2, a2]]}
        for name, k in matrices.items():
            estimates[name] += chance * score * fx.credit(fx.structure.KArray(np.array(k, float)), psi)
    np.testing.assert_allclose(estimates["state"], true, atol=1e-12)
    assert abs(estimates["action"][1] - true[1]) > 0.1
