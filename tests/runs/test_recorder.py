"""What a run writes: metrics as JSON."""

import numpy as np

from factorax import InfluenceNetwork
from factorax.runs import recorder


def test_long_vectors_are_summarised():
    values = np.arange(301.0)
    assert recorder.plain(values) == {"quartiles": [0, 75, 150, 225, 300]}


def test_edges_that_came_and_went_are_written_by_name():
    changed = np.array([[1, 0], [0, -1]])
    assert recorder._changes(changed, InfluenceNetwork.identity(2)) == {
        "network/came": ["a1 → psi1"],
        "network/went": ["a2 → psi2"],
    }
    assert recorder._changes(np.zeros((2, 2)), InfluenceNetwork.identity(2)) == {}
