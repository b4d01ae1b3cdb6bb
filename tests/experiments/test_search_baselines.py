"""Learning curves: from hand-made tables to summaries and verdicts."""

import numpy as np
import pytest

from factorax.experiments import search_baselines
from factorax.experiments.harness.table import from_rows
from factorax.runs import gamma_mean

INF = np.inf


@pytest.mark.parametrize(
    ("curve", "want"),
    [
        ([4.0, 3.0, 1.0, 0.5], 150.0),  # halfway between 3 and 1
        ([4.0, 2.0, 1.0, 0.5], 100.0),
        ([4.0, 2.2, 1.2, 3.0], 120.0),  # the first time counts
        ([4.0, 0.0, 0.0, 0.0], 50.0),
    ],
)
def test_the_step_at_which_a_curve_is_halved(curve, want):
    assert search_baselines._halved(np.array([0, 100, 200, 300]), np.array(curve)) == pytest.approx(want)


def curves(method, step_size, *gaps):
    for seed, curve in enumerate(gaps):
        for t, gap in enumerate(curve):
            yield {"method": method, "step_size": step_size, "seed": seed, "step": 10 * t, "gap": gap}


def test_curves_are_summarised_without_those_that_diverge():
    settings = search_baselines.Settings(n=2, seeds=2, steps=20, every=10)
    fast, slow = ([4.0, 1.0, 0.5], [2.0, 0.5, 0.5]), ([4.0, 3.5, 3.0], [2.0, 1.9, 1.8])
    rows = [
        *curves("VPG", 0.001, *slow),
        *curves("VPG", 0.5, [4.0, INF, INF], [2.0, 3.0, INF]),
        *curves("VPG b(s)", 0.5, *slow),
        *curves("VPG b(s,a)", 0.5, [4.0, 2.0, 1.0], [2.0, 3.0, INF]),
        *curves("FPG", 0.5, *fast),
        *curves("FPG b(s)", 0.5, *fast),
    ]
    summary = search_baselines.summarise(settings, from_rows(rows))
    assert summary["VPG η=0.5"] == {"diverged": 2, "runs": 2, "divergence seen at step": 10}
    mixed = summary["VPG b(s,a) η=0.5"]
    assert (mixed["diverged"], mixed["divergence seen at step"]) == (1, 20)
    assert mixed["final gap"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert mixed["spread over seeds"] == 0.0
    assert mixed["steps to halve the gap"]["mean"] == 10.0
    assert "steps to halve the gap" not in summary["VPG b(s) η=0.5"]
    fpg = summary["FPG η=0.5"]
    assert fpg["final gap"]["mean"] == 0.5
    assert fpg["gap over the second half"] == pytest.approx(vars(gamma_mean([0.75, 0.5])))
    assert fpg["steps to halve the gap"]["mean"] == pytest.approx(20 / 3)
    verdicts = [claim.verdict for claim in search_baselines.claims(settings, summary)]
    assert verdicts[0] == "holds"
    assert len(verdicts) == 5
