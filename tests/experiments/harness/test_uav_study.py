"""UAV: what is said of its curves, and which runs there are."""

import numpy as np
import pytest

from factorax.experiments import find
from factorax.experiments.harness import trainings
from factorax.experiments.harness.trainings import train
from factorax.experiments.harness.uav_study import Settings, plan


def table(**ends):
    """Curves of three seeds that end at these returns."""
    plan = [train(method, "chain:3", seed=seed, steps=400) for method in ends for seed in range(3)]
    results = []
    for method, end in ends.items():
        for seed in range(3):
            returns = np.linspace(-100, end + seed, 40)
            one = {name: np.array([end]) for name in ("final", "sampled", "sumo")}
            one["variance_ratio"] = np.array([2.0 if method == next(iter(ends)) else np.nan])
            results.append({"steps": np.arange(10, 401, 10)[None], "returns": returns[None]} | one)
    return trainings.curves(plan, results, points=20)


@pytest.mark.parametrize(("ends", "verdict"), [((-10, -30, -40, -50), "holds"), ((-10, -5, -40, -50), "holds in part")])
def test_the_claim_of_uav(ends, verdict):
    experiment = find("uav-4")
    settings = experiment.budgets["paper"]
    rows = table(**dict(zip(settings.methods, map(float, ends), strict=True)))
    (claim,) = experiment.claims(settings, experiment.summarise(settings, rows))
    assert claim.verdict == verdict
    assert "30 actions, 10 targets" in claim.claim
    figure = experiment.draw(settings, rows, experiment.summarise(settings, rows))
    assert len(figure.axes[0].lines) == 4


def test_the_runs_of_uav_differ_in_the_method_alone():
    runs = plan("5")(Settings(steps=800, seeds=2), 1)
    assert [t.seed for t in runs] == [2, 3] * 4
    assert len({t.name for t in runs}) == 8
    assert all("rddl:UAV_ippc2023/5" in t.arguments for t in runs)
