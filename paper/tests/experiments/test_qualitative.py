"""What the paper says of its search experiments, seen on a small budget.

Every run is a function of its seed, so that these tests cannot fail by chance. The confidence they state is that with
which what is seen here would be no accident.
"""

import functools

import numpy as np
import pytest
from factorax_paper.experiments import search_aliasing, search_discrepancy, search_stability
from factorax_paper.harness.bandit_engine import METHODS
from factorax_paper.harness.sweep import Job, Search, run
from scipy import stats

pytestmark = pytest.mark.slow

VPG, VPG_S, VPG_SA, FPG, FPG_S = METHODS
SEEDS = 12  # the same order in all of them would be an accident once in 2¹² times: p = 0.0002


def outcome(module, settings, seed=0):
    """Summary and verdicts of an experiment of sweeps, without files."""
    results = [run(job, seed) for job in module.jobs(settings)]
    summary = module.summarise(settings, module.tabulate(settings, seed, results))
    return summary, [claim.verdict for claim in module.claims(settings, summary)]


@functools.cache
def gaps(method, step_size=0.5):
    """After 4000 steps with 100 actions, of every seed."""
    job = Job(Search(100), method, (step_size,), SEEDS, steps=4000, every=1000)
    return run(job, 0)["gap"][:, :, 0]


def test_vpg_diverges_at_the_large_step_size_and_fpg_does_not():
    """All of 12 runs against none of 12: p = 1 / (24 choose 12) < 1e-6, by Fisher's exact test."""
    assert (gaps(VPG) == np.inf).all()
    for method in (FPG, FPG_S, VPG_S, VPG_SA):
        assert np.isfinite(gaps(method)).all()
    assert np.isfinite(gaps(VPG, 0.001)).all()


def test_vpg_learns_with_a_small_step_size():
    """Most gaps fall after the first record: by a sign test, p < 0.01."""
    fallen = int((gaps(VPG, 0.001)[-1] < gaps(VPG, 0.001)[0]).sum())
    assert stats.binomtest(fallen, SEEDS, alternative="greater").pvalue < 0.01


@pytest.mark.parametrize(
    ("better", "worse"),
    [((FPG,), (VPG_S,)), ((VPG_S,), (VPG, 0.001)), ((FPG_S,), (FPG,)), ((VPG_SA,), (VPG_S,)), ((FPG_S,), (VPG_SA,))],
    ids=lambda pair: pair[0].label,
)
def test_methods_come_in_the_paper_s_order_in_every_seed(better, worse):
    assert (gaps(*better)[-1] < gaps(*worse)[-1]).all()


def test_fpg_learns_faster_than_vpg_with_its_baseline():
    """After a quarter of the time, too; and the gaps vary less from seed to seed (F test, p < 0.01)."""
    assert (gaps(FPG)[0] < gaps(VPG_S)[0]).all()
    ratio = gaps(VPG_S)[-1].var(ddof=1) / gaps(FPG)[-1].var(ddof=1)
    assert ratio > stats.f.ppf(0.99, SEEDS - 1, SEEDS - 1)


def test_vpg_credits_an_action_with_the_errors_of_the_others():
    """Aliasing: by the intervals of the experiment itself, at 95 %, and in every seed."""
    settings = search_aliasing.Settings(
        n=20, seeds=SEEDS, steps=10_000, every=500, vpg_step_size=0.02, fpg_step_size=0.02
    )
    summary, verdicts = outcome(search_aliasing, settings)
    assert verdicts == ["holds", "holds"]
    for what in ("squared error", "variation within a run"):
        assert summary["VPG"][what]["low"] > 10 * summary["FPG"][what]["high"]
    assert summary["VPG"]["diverged"] == summary["FPG"]["diverged"] == 0


def test_with_the_penalty_fpg_s_gap_is_below_vpg_s():
    """By intervals that hold for all four cells at once, at 95 %."""
    settings = search_discrepancy.Settings((10,), (0.01, 0.1), seeds=8, steps=10_000, every=1000)
    summary, verdicts = outcome(search_discrepancy, settings)
    assert verdicts == ["holds", "holds"]
    for cell in summary["cells"]:
        if cell["step_size"] == 0.01:
            assert cell["ratio"]["high"] < 1
        else:
            assert cell["ratio"] == "VPG diverges"


def test_vpg_s_largest_step_size_falls_with_the_number_of_actions_and_fpg_s_does_not():
    settings = search_stability.Settings((2, 100), (0.02, 0.2), seeds=8, steps=10_000, every=1000)
    summary, verdicts = outcome(search_stability, settings)
    diverged = {(c["method"], c["n"], c["step_size"]): c["diverged"] for c in summary["cells"]}
    assert diverged["VPG", 100, 0.2] == 8
    assert {key for key, count in diverged.items() if count} == {("VPG", 100, 0.2)}
    assert verdicts[2] == "holds"
