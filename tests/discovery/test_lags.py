"""How long influence takes."""

import numpy as np
import pytest

import factorax as fx
from factorax.discovery import measure_lags
from factorax.problems import chain, queues


def test_hops_of_a_grid_take_a_step_each():
    """What a node serves leaves in the same step, and is at the next node then: a hop later it may be served on."""
    found = measure_lags(queues(1, 4, hops=3), horizon=30, trials=40).lags
    assert (found[0] >= [0, 0, 1, 2]).all()
    np.testing.assert_array_equal(found[2], [-1, -1, 0, 0])


def test_other_edges_than_the_problems_own():
    found = measure_lags(chain(2, delay=1), fx.InfluenceNetwork.complete(2, 2), horizon=6, trials=2)
    np.testing.assert_array_equal(found.lags, [[1, 1], [0, 1]])  # a2 never moves psi1: nought is safe


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="trials"):
        measure_lags(chain(2), trials=0)
    with pytest.raises(ValueError, match="network"):
        measure_lags(chain(2), fx.InfluenceNetwork.identity(3))
