"""Stability: from hand-made tables to summaries and verdicts."""

import numpy as np
from grid_runs import CLOSE, FAR, INF, runs

from factorax.experiments import search_stability
from factorax.experiments.harness.table import from_rows


def test_stability_is_counted_in_cells():
    settings = search_stability.Settings((2, 4), (0.1, 1.0), seeds=4)
    rows = [row for n in (2, 4) for step_size in (0.1, 1.0) for row in runs("FPG", n, step_size, np.divide(CLOSE, 10))]
    rows += [row for n in (2, 4) for row in runs("VPG", n, 0.1, FAR)]
    rows += [*runs("VPG", 2, 1.0, FAR), *runs("VPG", 4, 1.0, (1.0, INF, 1.0, 1.0))]
    summary = search_stability.summarise(settings, from_rows(rows))
    converges, sensitive = search_stability.claims(settings, summary)
    assert (converges.verdict, sensitive.verdict) == ("holds", "holds")
    assert converges.ours.startswith("4 of 4 cells without a diverged run; mean gap below 0.1 in 4 (VPG: 3 and 0)")
    assert "VPG diverges in 1 of 4 cells (FPG in 0)" in sensitive.ours
    assert "at n = 4 it ends below its first gap for 1 of 2 step sizes (FPG's for 2)" in sensitive.ours
