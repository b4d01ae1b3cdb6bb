"""The variance of networks of every width: closed forms against integration, samples against closed forms."""

import functools
import io

import numpy as np
import pytest
from factorax_paper.experiments import variance_growth
from factorax_paper.experiments.variance_growth import BASELINES, EXPERIMENT, Settings, exact, network, targets
from factorax_paper.harness.experiment import reproduce
from gaussian_grid import grid
from rich.console import Console

from factorax.problems import draw_centre

TINY = Settings((4, 8), samples=400, batches=4, dense_n=8, widths=(1, 4, 8))


@pytest.mark.parametrize(("n", "width"), [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3)])
def test_the_closed_form_is_what_integration_gives(n, width):
    """From the definition of the estimator, with the network's own matrix, over all of ℝⁿ."""
    c = draw_centre(n, 3)
    nodes, weights = grid(c, order=16)
    z = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, n)
    p = functools.reduce(np.multiply.outer, weights).ravel()
    k = targets(-np.abs(z - c), width) @ network(n, width).to_dense().T.astype(float)
    for name, credit in (("none", k), ("b(s)", k - p @ k)):
        g = z * credit
        assert exact(c, width)[name] == pytest.approx((p @ g**2 - (p @ g) ** 2).sum(), rel=1e-8)


@pytest.mark.parametrize("width", range(1, 7))
def test_targets_follow_the_network_and_add_up_to_the_same_objective(width):
    n, rng = 6, np.random.default_rng(0)
    u = rng.normal(size=(5, n))
    psi = targets(u, width)
    np.testing.assert_allclose(psi.sum(axis=1), u.sum(axis=1))
    np.testing.assert_allclose(targets(np.eye(n), width) * width, network(n, width).to_dense(), atol=1e-12)
    np.testing.assert_allclose(psi, u @ network(n, width).to_dense() / width, atol=1e-12)


def test_growth_has_the_exponents_of_the_claims():
    """VPG: n³ without and n² with a baseline, for the whole gradient; FPG: n with both."""
    small, large = (np.full(n, 1.5) for n in (1000, 10_000))
    power = {
        (method, name): np.log10(exact(large, wide(10_000))[name] / exact(small, wide(1000))[name])
        for method, wide in (("VPG", lambda n: n), ("FPG", lambda n: 1))
        for name in BASELINES
    }
    want = {("VPG", "none"): 3, ("VPG", "b(s)"): 2, ("FPG", "none"): 1, ("FPG", "b(s)"): 1}
    assert power == pytest.approx(want, abs=0.01)


def test_a_denser_network_has_more_variance():
    c = draw_centre(50, 0)
    for name in BASELINES:
        values = [exact(c, w)[name] for w in range(1, 51)]
        assert (np.diff(values) > 0).all()


@pytest.mark.parametrize("width", [1, 3, 6])
def test_samples_are_within_five_standard_errors_of_the_closed_form(width):
    """Two baselines and three widths, with 15 degrees of freedom: one of six beyond 5 once in a thousand times."""
    c, rng = draw_centre(6, 1), np.random.default_rng(2)
    batches = np.array([variance_growth._sampled(c, width, 500, rng) for _ in range(16)])
    for b, name in enumerate(BASELINES):
        error = batches[:, b].std(ddof=1) / 4
        assert abs(batches[:, b].mean() - exact(c, width)[name]) <= 5 * error


def test_it_runs_and_draws(tmp_path):
    reproduce(EXPERIMENT, settings=TINY, out=tmp_path / "out", console=Console(file=io.StringIO()))
    assert (tmp_path / "out" / "figure.png").stat().st_size > 10_000
    assert (
        len((tmp_path / "out" / "data.csv").read_text().splitlines()) == 1 + 5 * 2 * 4
    )  # networks, baselines, batches


def summary_of(vpg, fpg, half):
    cells = [(n, w) for n in (10, 100) for w in (1, n)] + [(100, 90)]
    sampled = {"mean": 1.0, "low": 0.5, "high": 2.0}
    value = {(100, 90): half, (100, 100): 1.0, (100, 1): 1e-3}
    rows = [
        {"n": n, "width": w, "baseline": b, "sampled": sampled, "exact": value.get((n, w), 1.0)}
        for n, w in cells
        for b in BASELINES
    ]
    exponents = dict(zip(("VPG none", "VPG b(s)", "FPG none", "FPG b(s)"), (*vpg, *fpg), strict=True))
    return {"cells": rows, "exponents": exponents, "from": 10, "to": 100}


@pytest.mark.parametrize(
    ("vpg", "fpg", "half", "verdicts"),
    [
        ((3, 2), (1, 1), 0.95, ["holds in part", "holds", "holds"]),
        ((1, 1), (2, 1), 0.5, ["does not hold", "holds in part", "holds in part"]),
        ((4, 4), (2, 2), 0.95, ["does not hold", "does not hold", "holds"]),
    ],
)
def test_verdicts_follow_the_numbers(vpg, fpg, half, verdicts):
    settings = Settings((10, 100), dense_n=100, widths=(1, 90, 100))
    rows = variance_growth.claims(settings, summary_of(vpg, fpg, half))
    assert [row.verdict for row in rows] == verdicts
