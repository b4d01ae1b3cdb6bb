import jax.numpy as jnp
import numpy as np
import pytest

import factorax as fx
from factorax.discovery import measure_lags
from factorax.problems import chain
from factorax.structure.network import as_network


def test_a_network_is_returned_as_it_is():
    net = fx.InfluenceNetwork.identity(2)
    assert as_network(net, "network") is net


def test_a_matrix_becomes_a_network():
    net = fx.InfluenceNetwork([[1, 0.5], [0, 1]])
    for matrix in (net.to_dense(), net.to_dense().tolist(), net.matrix, jnp.asarray(net.to_dense())):
        assert as_network(matrix, "network") == net


@pytest.mark.slow
def test_every_argument_that_is_a_network_may_be_a_matrix():
    eye = fx.InfluenceNetwork.identity(2)
    matrix = np.eye(2)
    assert fx.NetworkSchedule(matrix, np.ones((2, 2)), steps=3).static == eye
    assert fx.LaggedNetwork({1: matrix}).returns_network == eye
    assert fx.LaggedNetwork.over(matrix, []).returns_network == eye
    assert fx.StateNetwork(lambda obs, info: obs, matrix).support == eye
    assert fx.AdaptiveNetwork(matrix).initial == eye
    assert fx.close_over(matrix, []) == eye
    assert measure_lags(chain(2), np.ones((2, 2)), horizon=4, trials=2).shape == (2, 2)
    assert fx.discover(chain(2), method="interventional", horizon=4, trials=2, start=np.ones((2, 2))).found().all()
    fx.check_problem(chain(2), matrix)
    with pytest.raises(fx.rollouts.ProblemError, match="network: has 3 rows, but the action space has 2 components"):
        fx.check_problem(chain(2), np.ones((3, 2)))


def test_anything_else_is_refused_by_the_name_of_the_argument():
    with pytest.raises(TypeError, match=r"end: got dict, want an InfluenceNetwork; an array, nested lists"):
        as_network({}, "end")
    with pytest.raises(ValueError, match=r"end: holds the weight 2; want booleans or weights in \[0, 1\]"):
        as_network([[2.0]], "end")
    schedule = fx.NetworkSchedule(fx.InfluenceNetwork.identity(2), fx.InfluenceNetwork.complete(2, 2), steps=1)
    with pytest.raises(TypeError, match=r"net: got NetworkSchedule, want an InfluenceNetwork; use \.at\(step\)$"):
        as_network(schedule, "net", "use .at(step)")
