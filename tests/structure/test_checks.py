import pytest

import factorax as fx
from factorax.structure.checks import as_network


def test_a_network_is_returned_as_it_is():
    net = fx.InfluenceNetwork.identity(2)
    assert as_network(net, "network") is net


def test_anything_else_is_refused_by_the_name_of_the_argument():
    with pytest.raises(TypeError, match=r"end: got ndarray, want an InfluenceNetwork; make one with fx"):
        as_network(fx.InfluenceNetwork.identity(2).to_dense(), "end")
    schedule = fx.NetworkSchedule(fx.InfluenceNetwork.identity(2), fx.InfluenceNetwork.complete(2, 2), steps=1)
    with pytest.raises(TypeError, match=r"net: got NetworkSchedule, want an InfluenceNetwork; use \.at\(step\)$"):
        as_network(schedule, "net", "use .at(step)")
