"""Settings of the benchmark: values that are refused, and Flow's inflows."""

import numpy as np
import pytest
from factorax_traffic import Grid, Traffic


def test_settings_that_make_no_sense():
    with pytest.raises(ValueError, match="norm: got 'local' with one target per street"):
        Traffic(norm="local")
    with pytest.raises(ValueError, match="kind: got 'cars', want 'edges' or 'lights'"):
        Traffic(kind="cars")
    with pytest.raises(ValueError, match="horizon: got 0"):
        Traffic(horizon=0)
    with pytest.raises(ValueError, match="standstill: got -1"):
        Traffic(standstill=-1)


def test_flows_inflows():
    assert Traffic(3, 3, flow_inflows=True).inflows.all()
    enters = Traffic(2, 6, flow_inflows=True).inflows
    grid = Grid(2, 6)
    assert [grid.routes[x][0] for x in np.flatnonzero(~enters)] == ["right0_2", "right0_3", "right0_4", "right0_5"]
