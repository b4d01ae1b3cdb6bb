"""The ball around the optimum: its closed form, and runs that begin there."""

import io
import json

import numpy as np
import pytest
from factorax_paper.experiments import noise_ball
from factorax_paper.experiments.noise_ball import EXPERIMENT, METHODS, Settings, curvature, gradient_variance, predicted
from factorax_paper.harness.bandit_engine import RATE, BanditMethod
from factorax_paper.harness.experiment import reproduce
from gaussian_grid import grid
from rich.console import Console


def test_the_variance_at_the_optimum_is_what_integration_gives():
    """Two actions; the baseline is its mean and, independent of the action, the noise of a running value."""
    nodes, weights = grid(np.zeros(2))
    z1, z2 = np.meshgrid(*nodes, indexing="ij")
    p = np.multiply.outer(*weights)
    mean = (p * np.abs(z1)).sum()
    spread = 1 - mean**2
    want = {
        BanditMethod("fpg"): (p * z1**2 * z1**2).sum(),
        BanditMethod("fpg", "b(s)"): (p * z1**2 * (np.abs(z1) - mean) ** 2).sum() + RATE / (2 - RATE) * spread,
        BanditMethod("vpg", "b(s)"): (p * z1**2 * (np.abs(z1) + np.abs(z2) - 2 * mean) ** 2).sum()
        + RATE / (2 - RATE) * 2 * spread,
    }
    assert set(want) == set(METHODS)
    for method, value in want.items():
        assert gradient_variance(method, 2) == pytest.approx(value / 4, rel=1e-8)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.label)
def test_the_closed_form_is_the_fixed_point_of_the_recursion(method):
    """x ← (1 − ηh)² x + η² V for the mean square of the deviation."""
    n, eta, square = 10, 0.2, 0.0
    for _ in range(20_000):
        square = (1 - eta * curvature(n)) ** 2 * square + eta**2 * gradient_variance(method, n)
    assert predicted(method, n, eta) == pytest.approx(np.sqrt(2 / np.pi * square), rel=1e-6)


def test_the_ball_shrinks_with_the_variance_and_with_the_step_size():
    fpg, centred, vpg = METHODS
    assert predicted(centred, 100, 0.5) < predicted(fpg, 100, 0.5) < predicted(vpg, 100, 0.5)
    assert predicted(fpg, 100, 0.125) == pytest.approx(predicted(fpg, 100, 0.5) / 2, rel=0.01)


@pytest.mark.slow
def test_runs_stray_as_far_as_the_closed_form_says(tmp_path):
    settings = Settings((8,), (0.1, 0.4), seeds=64, relaxations=5)
    reproduce(EXPERIMENT, settings=settings, out=tmp_path / "out", console=Console(file=io.StringIO()))
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    for cell in summary["figures"]["cells"]:
        # 64 × 8 actions, correlated by a common baseline: a standard error below 5 %; and the error of linearising.
        assert cell["gap"]["mean"] == pytest.approx(cell["predicted"], rel=0.25), cell
    assert summary["figures"]["exponent"] == pytest.approx(0.5, abs=0.1)
    assert (tmp_path / "out" / "figure.png").stat().st_size > 10_000


def cell(method, n, eta, gap):
    variance = {"FPG b(s)": 1.0, "FPG": 2.0, "VPG b(s)": 3.0}[method]
    interval = {"mean": gap, "low": gap - 0.1, "high": gap + 0.1}
    return {"method": method, "n": n, "step_size": eta, "gap": interval, "variance": variance, "predicted": gap}


@pytest.mark.parametrize(
    ("gaps", "exponent", "verdict"),
    [
        ((1.0, 2.0, 3.0), 0.5, "holds"),
        ((1.0, 1.1, 3.0), 0.5, "holds in part"),
        ((3.0, 2.0, 1.0), 0.1, "does not hold"),
    ],
)
def test_verdicts_follow_the_numbers(gaps, exponent, verdict):
    cells = [cell(m, 10, 0.1, gap) for m, gap in zip(("FPG b(s)", "FPG", "VPG b(s)"), gaps, strict=True)]
    (row,) = noise_ball.claims(Settings((10,), (0.1,)), {"cells": cells, "exponent": exponent})
    assert row.verdict == verdict
