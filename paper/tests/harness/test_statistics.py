"""Intervals of positive numbers, shares and aggregates against SciPy, closed forms, and their coverage."""

import math

import numpy as np
import pytest
from factorax_paper.harness.statistics import (
    aggregate_improvement,
    aggregate_iqm,
    binomial_share,
    gamma_mean,
    gamma_shape,
    performance_profile,
)
from scipy import optimize, special, stats

from factorax.runs.statistics import Interval, normal_mean

SHAPES = [0.3, 1.0, 5.0, 80.0]


def draws(shape, size=16, seed=0):
    return np.random.default_rng(seed).gamma(shape, 2.0, size)


def numbers(interval):
    return np.array([interval.mean, interval.low, interval.high])


@pytest.mark.parametrize("spread", [1e-6, 1e-3, 0.1, 1.0, 10.0, 100.0])
def test_the_shape_solves_its_equation(spread):
    k = gamma_shape(spread)
    np.testing.assert_allclose(math.log(k) - special.digamma(k), spread, rtol=1e-7)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_shape_is_the_one_that_scipy_fits(shape):
    x = draws(shape, 50)
    fitted, _, scale = stats.gamma.fit(x, floc=0)
    np.testing.assert_allclose(gamma_shape(math.log(x.mean()) - np.log(x).mean()), fitted, rtol=1e-5)
    np.testing.assert_allclose(gamma_mean(x).mean, fitted * scale, rtol=1e-9)


def profile(x, mean):
    """The log-likelihood of the samples at this mean and the best shape for it, by search."""
    found = optimize.minimize_scalar(
        lambda log_k: -stats.gamma.logpdf(x, math.exp(log_k), scale=mean / math.exp(log_k)).sum(),
        bounds=(-12, 12),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return -found.fun


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("size", "confidence"), [(16, 0.95), (5, 0.8)])
def test_the_limits_are_where_the_likelihood_ratio_is_at_its_bound(shape, size, confidence):
    x = draws(shape, size)
    got = gamma_mean(x, confidence)
    t = stats.t.ppf((1 + confidence) / 2, size - 1)
    want = size * math.log(1 + t**2 / (size - 1))
    assert got.low < got.mean < got.high
    assert got.mean == x.mean()
    for limit in (got.low, got.high):
        np.testing.assert_allclose(2 * (profile(x, x.mean()) - profile(x, limit)), want, rtol=1e-5)


def test_a_large_shape_has_the_interval_of_student():
    """They part by a share of the standard error that goes with the deviation: 1e-4 of the mean here."""
    x = 3.0 + 3e-4 * np.random.default_rng(0).normal(size=12)
    for confidence in (0.5, 0.95, 0.99):
        student, gamma = normal_mean(x, confidence), gamma_mean(x, confidence)
        np.testing.assert_allclose(numbers(gamma) - 3, numbers(student) - 3, atol=1e-3 * (student.high - student.low))


@pytest.mark.parametrize("scale", [1e-20, 1e-3, 7.0, 1e20])
def test_units_do_not_matter(scale):
    for x in (draws(0.3), draws(5.0), np.array([0.0, 1.0, 2.0, 5.0])):
        np.testing.assert_allclose(numbers(gamma_mean(scale * x)), scale * numbers(gamma_mean(x)), rtol=1e-6)


def test_more_confidence_is_a_wider_interval():
    narrow, wide = (gamma_mean(draws(1.0), confidence) for confidence in (0.9, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high
    assert narrow.high - narrow.mean > narrow.mean - narrow.low  # skewed, as the distribution is


def coverage(interval, truth, runs, seed):
    rng = np.random.default_rng(seed)
    got = [interval(rng) for _ in range(runs)]
    return np.mean([i.low <= truth <= i.high for i in got])


# A share of 1500 runs at 95% is within 1.9% of it with a confidence of 99.9% (3.3 √(0.95 · 0.05 / 1500)).
@pytest.mark.parametrize("shape", [0.3, 1.0, 5.0])
def test_the_interval_holds_the_mean_as_often_as_it_says(shape):
    share = coverage(lambda rng: gamma_mean(rng.gamma(shape, size=16)), shape, runs=1500, seed=1)
    assert abs(share - 0.95) < 0.019


def test_the_interval_of_a_ratio_holds_it_as_often_as_it_says():
    def ratio(rng):
        return gamma_mean(rng.gamma(0.7, size=16)) / gamma_mean(rng.gamma(2.0, size=16))

    # Within 2.3% for 1000 runs: 99.9%.
    assert abs(coverage(ratio, 0.35, runs=1000, seed=2) - 0.95) < 0.023


@pytest.mark.parametrize("samples", [[2.5], [2.5] * 7, [0.0, 0.0]])
def test_equal_samples_have_an_interval_of_no_width(samples):
    for interval in (gamma_mean, normal_mean):
        assert interval(samples) == Interval(samples[0], samples[0], samples[0])


@pytest.mark.parametrize("difference", [1e-7, 1e-8])
def test_samples_that_are_nearly_equal(difference):
    x = 1 + difference * np.array([0.0, 1.0, 0.0, 0.5])
    student = normal_mean(x)
    np.testing.assert_allclose(numbers(gamma_mean(x)), numbers(student), rtol=0, atol=student.high - student.low)


def test_a_nought_is_what_single_precision_cannot_tell_from_it():
    x = np.array([0.0, 1.0, 2.0, 5.0])
    got = gamma_mean(x)
    assert got.mean == 2
    x[0] = 2 * 2.0**-23
    np.testing.assert_allclose(numbers(got), numbers(gamma_mean(x)), rtol=1e-6)
    assert 0 < got.low < 2 < got.high < math.inf


@pytest.mark.parametrize("interval", [gamma_mean, normal_mean], ids=lambda interval: interval.__name__)
@pytest.mark.parametrize("samples", [[], [1.0, math.nan], [1.0, math.inf], [[1.0, 2.0]], 3.0], ids=str)
def test_bad_samples_are_named(interval, samples):
    with pytest.raises(ValueError, match=r"samples: got .*want a list of finite numbers; exclude diverged runs"):
        interval(samples)


def test_a_gamma_distribution_has_no_negative_numbers():
    with pytest.raises(ValueError, match=r"samples: got -0.5, want numbers ≥ 0"):
        gamma_mean([1.0, -0.5, 2.0])
    assert normal_mean([-1.0, 1.0]).mean == 0


@pytest.mark.parametrize(("hits", "trials"), [(0, 20), (1, 20), (14, 200), (100, 2000), (20, 20)])
def test_the_share_has_the_exact_interval_of_scipy(hits, trials):
    wanted = stats.binomtest(hits, trials).proportion_ci(0.95, method="exact")
    np.testing.assert_allclose(numbers(binomial_share(hits, trials)), [hits / trials, *wanted], atol=1e-12)


def test_the_exact_interval_covers_every_share():
    """By enumeration: of all outcomes of 30 trials, those whose interval contains p have 95 % or more."""
    intervals = [binomial_share(hits, 30) for hits in range(31)]
    for p in np.linspace(0.01, 0.99, 99):
        covered = [interval.low <= p <= interval.high for interval in intervals]
        assert stats.binom.pmf(np.arange(31), 30, p)[covered].sum() >= 0.95


@pytest.mark.parametrize(
    ("hits", "trials", "message"), [(3, 2, "hits: got 3"), (-1, 2, "hits: got -1"), (0, 0, "trials: got 0")]
)
def test_shares_that_cannot_be_are_named(hits, trials, message):
    with pytest.raises(ValueError, match=message):
        binomial_share(hits, trials)


def test_aggregates_over_problems_resample_runs_within_each():
    """Problems that differ while their runs agree have no interval, which an unstratified bootstrap would give."""
    same = aggregate_iqm([[0.0] * 4, [1.0] * 4, [2.0] * 4, [3.0] * 4])
    assert (same.mean, same.low, same.high) == (1.5, 1.5, 1.5)
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(3, 40))
    interval = aggregate_iqm(scores)
    assert interval.mean == pytest.approx(np.sort(scores.ravel())[30:90].mean())
    assert interval.low < interval.mean < interval.high


def test_the_probability_of_improvement_is_averaged_over_problems():
    better = aggregate_improvement([[3.0, 4.0], [0.0, 0.0]], [[1.0, 2.0], [1.0, 1.0]])
    assert (better.mean, better.low, better.high) == (0.5, 0.5, 0.5)
    with pytest.raises(ValueError, match="b: got 1 problems, want 2"):
        aggregate_improvement([[1.0], [2.0]], [[1.0]])


def test_a_performance_profile_falls_from_one_to_zero():
    profile = performance_profile([[0.0, 1.0, 2.0, 3.0]], [-1.0, 0.5, 1.0, 5.0])
    assert profile.tolist() == [1.0, 0.75, 0.5, 0.0]
    with pytest.raises(ValueError, match=r"scores: got .*, want finite numbers of shape \(problems, runs\)"):
        performance_profile([1.0, 2.0], [0.0])
