"""Precision and recall of tests on data, at a tiny size."""

import io

import pytest
from factorax_paper.experiments.discover_samples import EXPERIMENT, METHODS, NULLS, Settings, null_batch
from factorax_paper.harness.experiment import reproduce
from factorax_paper.harness.statistics import binomial_share
from rich.console import Console

QUIET = Console(file=io.StringIO())


@pytest.mark.nightly
def test_precision_and_recall_of_tests_on_data(tmp_path):
    settings = Settings(dimensions=(10,), samples=(300, 2000), repeats=2, nulls=20, null_samples=100, gated_nulls=2)
    summary = reproduce(EXPERIMENT, settings=settings, out=tmp_path / "out", console=QUIET)
    cells = {(c["k"], c["samples"], c["method"]): c for c in summary["cells"]}
    assert {method for _, _, method in cells} == set(METHODS)
    for coupling, k in (("n", 10), ("n/2", 5), ("n−1", 9)):
        assert cells[coupling, 2000, "dependence"]["recall"] == 1
        assert cells[coupling, 2000, "gated"]["precision"] > 0.9
        assert cells[coupling, 2000, "score"]["recall"] == pytest.approx(10 / (10 + k), abs=0.06)  # not the penalty
    assert summary["null"]["none"]["score"]["mean"] <= 0.25
    assert summary["null"]["none"]["gated"]["sets"] == 2


SMALL = Settings(dimensions=(10,), samples=(300,), repeats=1, gated=0, gated_nulls=0)


@pytest.mark.parametrize(
    ("hits", "verdict"),
    [
        ((100, 100, 100), "holds"),  # of 2,000: 5 % [4.1 %, 6.05 %]
        ((10, 10, 10), "holds"),
        ((100, 110, 100), "holds in part"),  # 5.5 % [4.5 %, 6.6 %]: reaches above 6.25 %
        ((100, 140, 100), "holds in part"),  # 7 % [5.9 %, 8.2 %]: above 5 %, as 14 of 200 were
        ((140, 140, 140), "does not hold"),
    ],
)
def test_the_verdict_on_false_edges_is_by_the_exact_interval(hits, verdict):
    rates = [vars(binomial_share(each, 2000)) | {"sets": 2000} for each in hits]
    null = {
        NULLS[0]: dict.fromkeys(METHODS[:-1], rates[0]) | {"dependence": rates[1]},
        NULLS[1]: {"dependence": rates[2]},
    }
    cell = {"n": 10, "samples": 300, "precision": 1.0, "recall": 1.0, "coupled": 1.0, "seconds": 1.0}
    cells = [cell | {"k": k, "method": method} for k in ("n", "n/2", "n−1") for method in METHODS[:-1]]
    claim, *_ = EXPERIMENT.claims(SMALL, {"cells": cells, "null": null})
    assert claim.verdict == verdict
    assert bool(claim.would_settle) == (verdict == "holds in part")


def test_data_without_edges_have_features_given_the_state_alone():
    plain, of_state = (null_batch(kind, 50, [0]) for kind in NULLS)
    assert plain.scores.shape == (50, 20)
    assert of_state.scores.shape == (50, 20, 3)
