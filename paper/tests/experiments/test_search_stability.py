"""Stability: from hand-made tables to summaries and verdicts."""

import numpy as np
import pytest
from factorax_paper.experiments import search_stability
from factorax_paper.harness.ball import radius
from factorax_paper.harness.table import from_rows
from grid_runs import CLOSE, FAR, INF, runs


def test_stability_is_counted_in_cells():
    settings = search_stability.Settings((2, 4), (0.1, 1.0), seeds=4)
    rows = [row for n in (2, 4) for step_size in (0.1, 1.0) for row in runs("FPG", n, step_size, np.divide(CLOSE, 10))]
    rows += [row for n in (2, 4) for row in runs("VPG", n, 0.1, FAR)]
    rows += [*runs("VPG", 2, 1.0, FAR), *runs("VPG", 4, 1.0, (1.0, INF, 1.0, 1.0))]
    summary = search_stability.summarise(settings, from_rows(rows))
    stable, converges, sensitive = search_stability.claims(settings, summary)
    assert (stable.verdict, converges.verdict, sensitive.verdict) == ("holds", "holds", "holds")
    assert stable.ours.startswith("no run diverges in 4 of 4 cells (VPG: in 3)")
    assert "in 4 of 4 cells the mean can cross 5 units in 200,000 steps" in converges.ours
    assert "FPG's mean gap is below 0.1 in 4 of these (VPG's in 0)" in converges.ours
    assert "VPG diverges in 1 of 4 cells (FPG in 0)" in sensitive.ours
    assert "at n = 4 it ends below its first gap for 1 of 2 step sizes (FPG's for 2)" in sensitive.ours


def test_only_cells_that_can_be_crossed_count_as_not_converged():
    """η times steps is 2 n at n = 4, and 20 n at n = 2: at n = 4 the mean cannot have gone 5 units."""
    settings = search_stability.Settings((2, 4), (0.1, 1.0), seeds=4, steps=80)
    rows = [
        row
        for method in ("FPG", "VPG")
        for n in (2, 4)
        for step_size in (0.1, 1.0)
        for row in runs(method, n, step_size, CLOSE if (n, step_size) == (2, 1.0) else FAR)
    ]
    _, converges, *_ = search_stability.claims(settings, search_stability.summarise(settings, from_rows(rows)))
    assert "in 2 of 4 cells the mean can cross 5 units in 80 steps" in converges.ours
    assert "In 2 of the 2 others the ball" in converges.note
    assert (converges.verdict, converges.would_settle) == ("does not hold", "")


@pytest.mark.parametrize(("factor", "want"), [(1.0, "holds"), (0.1, "does not hold")])
def test_the_ball_grows_with_the_variance(factor, want):
    """Gaps as in the closed form, or VPG's a tenth of it, below FPG's."""
    settings = search_stability.Settings((10,), (0.001, 0.01), seeds=4)
    spread = np.array([0.98, 0.99, 1.01, 1.02])
    rows = [
        row
        for method, by in (("FPG", 1.0), ("VPG", factor))
        for step_size in (0.001, 0.01)
        for row in runs(method, 10, step_size, by * radius(method, 10, step_size) * spread)
    ]
    *_, ball = search_stability.claims(settings, search_stability.summarise(settings, from_rows(rows)))
    assert ball.where == "Sec. 5.2"
    assert ball.verdict == want
    assert ball.ours.startswith("in 2 cells with n > 1")
    if factor == 1:
        assert "that is 1.00 to 1.00 of" in ball.ours
