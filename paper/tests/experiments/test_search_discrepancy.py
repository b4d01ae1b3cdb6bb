"""Ratios of gaps: from hand-made tables to summaries and verdicts."""

import numpy as np
import pytest
from factorax_paper.experiments import search_discrepancy
from factorax_paper.harness.statistics import gamma_mean
from factorax_paper.harness.table import from_rows
from grid_runs import CLOSE, FAR, INF, runs


def discrepancy(fpg, vpg, n=4):
    """The summary and the verdicts if all cells are alike but the first, which has these gaps."""
    settings = search_discrepancy.Settings((n,), (0.1, 1.0), seeds=4)
    rows = []
    for coupling in search_discrepancy.COUPLINGS:
        for step_size, cell in [(0.1, {"FPG": fpg, "VPG": vpg}), (1.0, {"FPG": CLOSE, "VPG": FAR})]:
            for method, gaps in cell.items():
                rows += [{"coupling": coupling} | row for row in runs(method, n, step_size, gaps)]
    summary = search_discrepancy.summarise(settings, from_rows(rows))
    first, second, *_ = summary["cells"]
    interval = gamma_mean(CLOSE, 1 - 0.05 / 4) / gamma_mean(FAR, 1 - 0.05 / 4)  # four cells at once
    assert second["ratio"] == pytest.approx(vars(interval))
    return first, {claim.verdict for claim in search_discrepancy.claims(settings, summary)}


@pytest.mark.parametrize(
    ("fpg", "vpg", "ratio", "want"),
    [
        (CLOSE, (1.0, INF, 1.2, 1.3), "VPG diverges", "holds"),
        ((INF, 0.1, 0.1, 0.1), FAR, "FPG diverges", "does not hold"),
        ((INF,) * 4, (INF,) * 4, "both diverge", "holds"),
        ((INF, 0.1, 0.1, 0.1), (INF,) * 4, "both diverge", "holds"),
    ],
)
def test_a_ratio_says_who_diverges(fpg, vpg, ratio, want):
    first, verdicts = discrepancy(fpg, vpg)
    assert first["ratio"] == ratio
    assert first["FPG"]["diverged"] == sum(gap == INF for gap in fpg)
    assert first["VPG"]["diverged"] == sum(gap == INF for gap in vpg)
    assert verdicts == {want}


@pytest.mark.parametrize(
    ("fpg", "vpg", "want"),
    [
        (CLOSE, FAR, "holds"),
        (FAR, CLOSE, "does not hold"),  # beyond doubt
        (tuple(1.01 * x for x in CLOSE), CLOSE, "holds in part"),  # above 1 by what may be noise
    ],
)
def test_a_ratio_above_one_counts_if_it_is_beyond_doubt(fpg, vpg, want):
    first, verdicts = discrepancy(fpg, vpg)
    assert first["ratio"]["mean"] == pytest.approx(np.mean(fpg) / np.mean(vpg))
    assert verdicts == {want}
