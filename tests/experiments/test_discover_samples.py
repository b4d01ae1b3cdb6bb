"""Precision and recall of tests on data, at a tiny size."""

import io

import pytest
from rich.console import Console

from factorax.experiments.discover_samples import EXPERIMENT, METHODS, Settings
from factorax.experiments.harness.experiment import reproduce

QUIET = Console(file=io.StringIO())


@pytest.mark.nightly
def test_precision_and_recall_of_tests_on_data(tmp_path):
    settings = Settings(dimensions=(10,), samples=(300, 2000), repeats=2, nulls=20, null_samples=100)
    summary = reproduce(EXPERIMENT, settings=settings, out=tmp_path / "out", console=QUIET)
    cells = {(c["k"], c["samples"], c["method"]): c for c in summary["cells"]}
    assert {method for _, _, method in cells} == set(METHODS)
    for coupling, k in (("n", 10), ("n/2", 5), ("n−1", 9)):
        assert cells[coupling, 2000, "dependence"]["recall"] == 1
        assert cells[coupling, 2000, "gated"]["precision"] > 0.9
        assert cells[coupling, 2000, "score"]["recall"] == pytest.approx(10 / (10 + k), abs=0.06)  # not the penalty
    assert summary["null"]["score"]["mean"] <= 0.25
