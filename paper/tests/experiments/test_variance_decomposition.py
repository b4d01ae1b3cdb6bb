"""The exact terms of the variance against plain integration, and the sampled ones against the exact."""

import functools
import math
from pathlib import Path

import numpy as np
import pytest
from factorax_paper.experiments import variance_decomposition
from factorax_paper.experiments.variance_decomposition import FIGURE, PROBLEMS, TERMS, exact
from factorax_paper.harness.parts import Progress
from gaussian_grid import grid
from scipy import integrate, stats

every_problem = pytest.mark.parametrize("problem", PROBLEMS)
every_separable_problem = pytest.mark.parametrize("problem", FIGURE)


def by_integration(problem, n, seed):
    """The terms from their definitions, integrated over all of ℝⁿ: nothing is taken as independent."""
    bandit = variance_decomposition._problem(problem, n, seed)
    nodes, weights = grid(np.zeros(n) if problem == "relu" else bandit.best)
    z = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1)
    p = functools.reduce(np.multiply.outer, weights)
    assert math.isclose(p.sum(), 1, rel_tol=1e-10)
    psi = bandit.targets(z)
    penalty = psi[..., n] if problem == "coupled" else 0.0

    def mean(x):
        return float((p * x).sum())

    terms = dict.fromkeys(TERMS, 0.0)
    for i in range(n):
        square, k, total = z[..., i] ** 2, psi[..., i] + penalty, psi.sum(axis=-1)
        b = total - k
        linear = 2 * mean(square * k) * mean(b)
        vpg, fpg = (mean(square * x**2) - mean(z[..., i] * x) ** 2 for x in (total, k))
        each = mean(square) * mean(b**2), linear, 2 * mean(square * k * b) - linear, vpg - fpg
        for term, value in zip(TERMS, each, strict=True):
            terms[term] += value / n
    return terms


@every_separable_problem
@pytest.mark.parametrize(("n", "seed"), [(2, 0), (3, 0), (3, 7)])
def test_the_exact_terms_are_what_integration_gives(problem, n, seed):
    got, want = exact(problem, n, seed), by_integration(problem, n, seed)
    assert got.keys() == want.keys()
    for term in TERMS:
        np.testing.assert_allclose(got[term], want[term], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("n", "tolerance"), [(2, 1e-4), (3, 1e-5)])  # the penalty has a kink at 0, blunter as n grows
def test_the_exact_covariance_of_coupled_targets_is_what_integration_gives(n, tolerance):
    got, want = exact("coupled", n, 0), by_integration("coupled", n, 0)
    assert want["covariance"] > 0.01
    for term in TERMS:
        np.testing.assert_allclose(got[term], want[term], rtol=tolerance)


def test_with_coupled_targets_the_covariance_grows_as_the_root_of_n():
    """The mean over centres in (−5, 5) of Cov(x², |x − c|) = 2φ(c) is 0.2, and h(x) ≈ √n + x²/(2√n)."""
    for n in (1024, 4096):
        c = variance_decomposition._problem("coupled", n, 0).best
        assert exact("coupled", n, 0)["covariance"] == pytest.approx(
            (n - 1) / n * 2 * stats.norm.pdf(c).sum() / math.sqrt(n), rel=0.01
        )


@every_separable_problem
def test_the_exact_terms_are_what_adaptive_integration_gives(problem):
    """By moments of single targets, for which `scipy.integrate.quad` will do."""
    n, seed = 3, 1
    best = variance_decomposition._problem(problem, n, seed).best

    def moment(i, power, score=0):
        def f(z):
            psi = -abs(z - best[i]) if problem == "search" else -max(-best[i] * z, 0)
            return psi**power * z**score * stats.norm.pdf(z)

        kink = best[i] if problem == "search" else 0.0
        return sum(integrate.quad(f, *ends)[0] for ends in [(-np.inf, kink), (kink, np.inf)])

    first, second, scored = ([moment(i, *kind) for i in range(n)] for kind in [(1,), (2,), (1, 2)])
    quadratic = linear = 0.0
    for i in range(n):
        others = [j for j in range(n) if j != i]
        dropped = sum(first[j] for j in others)
        quadratic += (sum(second[j] - first[j] ** 2 for j in others) + dropped**2) / n
        linear += 2 * scored[i] * dropped / n
    want = {"quadratic": quadratic, "linear": linear, "covariance": 0.0, "total": quadratic + linear}
    assert exact(problem, n, seed) == pytest.approx(want, rel=1e-6, abs=1e-9)


@functools.cache
def sampled():
    """The experiment at a small size: its table, and the verdicts."""
    settings = variance_decomposition.Settings((8,), samples=8000, batches=16)
    todo = variance_decomposition.parts(settings, 0)
    results = [part.compute(Progress(Path())) for part in todo]
    table = variance_decomposition.tabulate(settings, 0, results)
    summary = variance_decomposition.summarise(settings, table)
    return table, [claim.verdict for claim in variance_decomposition.claims(settings, summary)]


@pytest.mark.slow
@every_problem
@pytest.mark.parametrize("term", TERMS)
def test_the_sampled_terms_are_within_four_standard_errors_of_the_exact(problem, term):
    """A Student variable with 15 degrees of freedom is beyond 4 once in 800 times, any of twelve once in 70."""
    table, _ = sampled()
    rows = (table["problem"] == problem) & (table["term"] == term)
    values, want = table["value"][rows], exact(problem, 8, 0)[term]
    assert len(values) == 16
    assert (table["exact"][rows] == want).all()
    assert values.std(ddof=1) > 0
    assert abs(values.mean() - want) <= 4 * values.std(ddof=1) / math.sqrt(16)


@every_separable_problem
def test_the_quadratic_term_s_share_grows_with_the_number_of_actions(problem):
    terms = {n: exact(problem, n, 0) for n in (2, 8, 64, 512, 4096)}
    ratio = {n: abs(each["linear"]) / each["quadratic"] for n, each in terms.items()}
    assert sorted(ratio.values(), reverse=True) == list(ratio.values())
    assert ratio[4096] * 4096 == pytest.approx(ratio[512] * 512, rel=0.1)  # as 1/n
    assert all(each["total"] > 0 for each in terms.values())


@pytest.mark.slow
def test_no_translation_is_needed():
    _, verdicts = sampled()
    assert verdicts[2:] == ["holds", "does not hold"]  # and two terms are not all of it with coupled targets
