"""A network that the state chooses credits as the one it stands for."""

import jax.numpy as jnp
import numpy as np
import pytest

import factorax as fx
from factorax.learning.chosen_network import ChosenNetwork

NETWORKS = [fx.InfluenceNetwork([[1, 0], [0, 1]]), fx.InfluenceNetwork([[1, 0.5], [1, 1]])]


@pytest.mark.parametrize("i", [0, 1])
def test_it_credits_as_the_network_it_stands_for(i):
    chosen, psi = ChosenNetwork(NETWORKS), jnp.array([[2.0, 3.0], [-1.0, 4.0]])
    k = chosen.for_rollout(chosen.matrix(i), None)
    np.testing.assert_allclose(fx.credit(k, psi), fx.credit(NETWORKS[i], psi))


def test_shapes_must_be_the_same():
    with pytest.raises(ValueError, match=r"networks: got shapes \[\(2, 2\), \(3, 3\)\], want the same for all"):
        ChosenNetwork([NETWORKS[0], fx.InfluenceNetwork.identity(3)])
