"""Networks that depend on the state."""

import itertools

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest

import factorax as fx
from factorax.spec import Spec
from factorax.structure import StateNetwork


def test_a_function_of_the_state_must_give_a_matrix_for_each():
    net = StateNetwork(lambda obs, info: np.ones((2, 3)), fx.InfluenceNetwork.complete(2, 3))
    assert net.at(np.zeros(4), {}).shape == (2, 3)
    with pytest.raises(ValueError, match=r"want \(5, 2, 3\)"):
        net.at(np.zeros((5, 4)), {})
    with pytest.raises(TypeError, match="function: got InfluenceNetwork, want a function of observations and info"):
        StateNetwork(fx.InfluenceNetwork.complete(2, 3), fx.InfluenceNetwork.complete(2, 3))  # type: ignore
    with pytest.raises(TypeError, match="support: got str, want an InfluenceNetwork"):
        StateNetwork(lambda obs, info: obs, "complete")


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


def closed_with_numpy(obs, info):
    return np.where(obs[..., :2, None] > 0, 1.0, 0.0) * np.ones(3)


def closed_with_an_if(obs, info):
    return jnp.ones((*obs.shape[:-1], 2, 3)) if obs[0, 0, 0] > 0 else jnp.zeros((*obs.shape[:-1], 2, 3))


@pytest.mark.parametrize("function", [closed_with_numpy, closed_with_an_if])
def test_a_function_that_cannot_be_traced_is_named_when_the_model_is_made(function):
    support = fx.InfluenceNetwork.complete(2, 3)
    net = StateNetwork(function, support)
    space = gym.spaces.Box(-1, 1, (4,))
    with pytest.raises(TypeError, match=rf"function: {function.__name__} cannot be traced by JAX .* with jax.numpy"):
        Spec.of_spaces(space, gym.spaces.Box(-1, 1, (2,)), net)


def test_a_function_that_can_be_traced_sees_what_it_will_see_in_training():
    shapes = []

    def function(obs, info):
        shapes.append((obs.shape, {name: value.shape for name, value in info.items()}))
        return info["factor_mask"][..., None] * jnp.ones(3)

    net = StateNetwork(function, fx.InfluenceNetwork.complete(2, 3))
    Spec.of_spaces(gym.spaces.Box(-1, 1, (4,)), gym.spaces.Box(-1, 1, (2,)), net, observed_info=(("wind", 3, 4),))
    assert shapes == [((1, 1, 4), {"wind": (1, 1, 1), "factor_mask": (1, 1, 2)})]
    np.testing.assert_array_equal(
        StateNetwork(closed_with_numpy, net.support).at(np.array([1.0, -1.0]), {}).matrix, [[1, 1, 1], [0, 0, 0]]
    )


@pytest.mark.parametrize("function", [lambda obs: obs, lambda: None, lambda obs, info, *, gain: obs, abs])
def test_a_function_that_does_not_take_observations_and_info_is_refused(function):
    with pytest.raises(TypeError, match=r"function: got .*, want a function of two arguments, observations and info"):
        fx.StateNetwork(function, fx.InfluenceNetwork.identity(2))
