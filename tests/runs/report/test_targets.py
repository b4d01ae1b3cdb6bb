"""Targets over time: means over seeds, λ, and who improved or paid."""

import numpy as np
import pytest

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


def test_names_fall_back_to_numbers_and_quartiles_are_called_so():
    section = targets_section("group", [curves(RISING)], None, None)
    assert section is not None
    assert [each["name"] for each in section["series"]] == ["target 1", "target 2"]
    labels = tuple(f"t{k}" for k in range(300))
    section = targets_section("group", [curves(np.ones((4, 5)))], labels, None)
    assert section is not None
    assert section["series"][2]["name"] == "median"
    assert section["changes"] == []
    assert section["n_targets"] == 300


def test_of_many_targets_those_that_changed_most_are_drawn():
    table = np.zeros((10, 100))
    table[:, 70:] = np.linspace(0, 1, 10)[:, None] * np.arange(30)
    section = targets_section("group", [curves(table)], tuple(f"t{k}" for k in range(100)), None)
    assert section is not None
    assert len(section["series"]) == 60
    assert section["series"][-1]["name"] == "t99"
    assert len(section["changes"]) == 100
    assert section["changes"][99]["change"] == pytest.approx(29, rel=0.01)
