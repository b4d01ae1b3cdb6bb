"""Green phases, and the yellow between two of them."""

import pytest
from factorax_traffic.city.phases import green_phases, is_green, yellow_between


def test_green_phases_are_different_and_in_order():
    assert green_phases(["rrGG", "rryy", "GGrr", "yyrr", "rrGG", "uurr", "rrrr"]) == ("rrGG", "GGrr")
    assert not is_green("GGyy")
    assert not is_green("sssr")


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [("GGrr", "rrGG", "yyrr"), ("GgrG", "GrGG", "GyrG"), ("sGr", "sGG", "sGr"), ("sGr", "GGr", "rGr"), ("G", "G", "G")],
)
def test_yellow_is_where_green_ends(before, after, want):
    assert yellow_between(before, after) == want
