"""Learning curves: from hand-made tables to summaries and verdicts."""

import numpy as np
import pytest
from factorax_paper.experiments import search_baselines
from factorax_paper.harness.statistics import gamma_mean
from factorax_paper.harness.table import from_rows

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


def curves(method, step_size, *gaps, rewards="divided by n"):
    for seed, curve in enumerate(gaps):
        for t, gap in enumerate(curve):
            head = {"rewards": rewards, "method": method, "step_size": step_size}
            yield head | {"seed": seed, "step": 10 * t, "gap": gap}


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
        *curves("VPG b(s,a) as printed", 0.5, *slow),
        *curves("VPG", 0.001, [4.0, INF, INF], [2.0, 3.0, INF], rewards="undivided"),
        *curves("VPG", 0.5, [4.0, INF, INF], [2.0, INF, INF], rewards="undivided"),
        *curves("FPG", 0.001, *fast, rewards="undivided"),
        *curves("FPG", 0.5, *slow, rewards="undivided"),
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
    claims = search_baselines.claims(settings, summary)
    divided, undivided, *_ = claims
    assert len(claims) == 8
    assert (divided.verdict, undivided.verdict) == ("holds", "does not hold")
    assert undivided.ours.startswith(
        "η = 0.5: 2 of 2 runs of VPG diverge; η = 0.001: 2 of 2 runs of VPG diverge; η = 0.5"
    )
    assert claims[4].verdict == "does not hold"  # as printed it is no better than b(s)
    assert all(claim.chosen_by for claim in claims)
    assert all(bool(claim.would_settle) == (claim.verdict == "holds in part") for claim in claims)


def test_the_gap_of_undivided_rewards_is_in_the_same_unit():
    settings = search_baselines.Settings(n=4, seeds=1, steps=2, every=2, step_size=0.5)
    jobs = search_baselines.jobs(settings)
    results = [
        {"step": np.array([2]), "gap": np.full((1, 1, len(job.step_sizes)), 8.0)}
        | {"measure": np.full((1, 1, len(job.step_sizes)), 8.0)}
        for job in jobs
    ]
    table = search_baselines.tabulate(settings, 0, results)
    for rewards, gap in (("divided by n", 8.0), ("undivided", 2.0)):
        assert set(table["gap"][(table["rewards"] == rewards) & (table["step"] == 2)]) == {gap}
    start = table["step"] == 0
    np.testing.assert_allclose(table["gap"][start], table["gap"][0])
