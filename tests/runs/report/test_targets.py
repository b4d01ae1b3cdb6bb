"""Targets over time: means over seeds, λ, and who improved or paid."""

import numpy as np

from factorax.runs.report.curves import TARGETS, RunCurves
from factorax.runs.report.targets import targets_section


def curves(table):
    table = np.asarray(table, float)
    x = np.arange(1, len(table) + 1, dtype=float)
    return RunCurves(steps=x, episodes=x, seconds=x, returns=table.sum(axis=1), vectors={TARGETS: table})


RISING = np.stack([np.linspace(0, 9, 10), np.linspace(5, -4, 10)], axis=1)


def test_changes_are_from_the_first_to_the_last_tenth_and_count_by_their_weights():
    section = targets_section("group", [curves(RISING), curves(RISING + 2)], ("fuel", "time"), np.array([1.0, 2.0]))
    assert section is not None
    first, second = section["changes"]
    assert (first["name"], first["first"], first["last"], first["change"], first["gain"]) == ("fuel", 1, 10, 9, 9)
    assert (second["name"], second["weight"], second["change"], second["gain"]) == ("time", 2, -9, -18)
    np.testing.assert_allclose(section["series"][0]["y"], RISING[:, 0] + 1)


def test_gaps_are_left_out():
    table = RISING.copy()
    table[0] = np.nan
    section = targets_section("group", [curves(table)], ("a", "b"), None)
    assert section is not None
    assert section["series"][0]["y"][0] is None
    assert section["changes"][0]["first"] == 1.0


def test_one_target_and_no_metrics_show_nothing():
    assert targets_section("group", [curves(RISING[:, :1])], ("a",), None) is None
    assert targets_section("group", [], None, None) is None
    assert targets_section("group", [curves(np.full((3, 2), np.nan))], ("a", "b"), None) is None
