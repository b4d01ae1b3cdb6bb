"""Intervals against SciPy, closed forms, and their coverage by simulation."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from factorax.runs.statistics import (
    Interval,
    iqm,
    iqm_difference,
    normal_mean,
    probability_of_improvement,
)

SHAPES = [0.3, 1.0, 5.0, 80.0]


def numbers(interval):
    return np.array([interval.mean, interval.low, interval.high])


def test_a_ratio_on_the_logarithmic_scale():
    x, y = Interval(6.0, 6 * math.exp(-0.3), 6 * math.exp(0.3)), Interval(2.0, 2 * math.exp(-0.4), 2 * math.exp(0.4))
    np.testing.assert_allclose(numbers(x / y), [3.0, 3 * math.exp(-0.5), 3 * math.exp(0.5)])
    exact = Interval(2.0, 2.0, 2.0)
    np.testing.assert_allclose(numbers(x / exact), numbers(x) / 2)
    np.testing.assert_allclose(numbers(exact / x), 2 / numbers(x)[[0, 2, 1]])
    # The lower limit comes from the lower of one and the upper of the other.
    skewed = Interval(2.0, 2 * math.exp(-0.1), 2 * math.exp(1.2))
    lopsided = Interval(1.0, math.exp(-0.5), math.exp(0.2))
    want = [2.0, 2 * math.exp(-math.hypot(0.1, 0.2)), 2 * math.exp(math.hypot(1.2, 0.5))]
    np.testing.assert_allclose(numbers(skewed / lopsided), want)
    np.testing.assert_allclose(numbers(lopsided / skewed), 1 / np.array(want)[[0, 2, 1]])


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
def test_the_normal_mean_is_students(confidence):
    x = np.random.default_rng(0).normal(-1.0, 3.0, 11)
    got = normal_mean(x, confidence)
    want = stats.t.interval(confidence, 10, loc=x.mean(), scale=stats.sem(x))
    np.testing.assert_allclose(numbers(got), [x.mean(), *want])


def test_the_interquartile_mean():
    x = [100.0, 1.0, 2.0, 3.0, 4.0, -50.0, 2.5, 3.5]  # the middle half: 2, 2.5, 3, 3.5
    got = iqm(x)
    assert got.mean == pytest.approx(2.75)
    assert got.low < 2.75 < got.high
    same = iqm([3.0] * 5)
    assert (same.mean, same.low, same.high) == (3, 3, 3)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    """Normal samples, 20 a group: at least 85 of 100 intervals of 95 % hold 0 (the bootstrap is a little narrow)."""
    rng = np.random.default_rng(0)
    covered = [i.low < 0 < i.high for i in (iqm(rng.normal(size=20)) for _ in range(100))]
    assert sum(covered) >= 85


def test_the_probability_of_improvement():
    a, b = [1.0, 2.0, 3.0], [2.0, 0.0]
    got = probability_of_improvement(a, b)
    assert got.mean == pytest.approx((0 + 1 + 0.5 + 1 + 1 + 1) / 6)
    assert probability_of_improvement(b, a).mean == pytest.approx(1 - got.mean)
    assert 0 <= got.low <= got.mean <= got.high <= 1
    assert probability_of_improvement([1.0] * 3, [1.0] * 4).mean == 0.5


def test_the_difference_of_interquartile_means_against_every_resample_there_is():
    """All 256 resamples of four numbers, twice: the limits lie within four standard errors of their exact quantiles."""
    a, b = np.array([1.0, 2.0, 4.0, 8.0]), np.array([0.0, 3.0, 3.5, 5.0])
    got = iqm_difference(a, b, confidence=0.8)
    assert got.mean == pytest.approx((2 + 4) / 2 - (3 + 3.5) / 2)
    middles = [np.sort(list(itertools.product(x, repeat=4)), axis=1)[:, 1:3].mean(axis=1) for x in (a, b)]
    exact = np.subtract.outer(*middles).ravel()
    for limit, p in ((got.low, 0.1), (got.high, 0.9)):
        error = 4 * math.sqrt(p * (1 - p) / 2000)
        below, above = np.quantile(exact, [p - error, p + error])
        assert below <= limit <= above
    back = iqm_difference(b, a)
    assert back.mean == -got.mean


def test_equal_samples_have_an_interval_of_no_width_and_bad_ones_are_named():
    assert normal_mean([2.5] * 7) == normal_mean([2.5]) == Interval(2.5, 2.5, 2.5)
    for samples in ([], [1.0, math.nan], [1.0, math.inf], [[1.0, 2.0]], 3.0):
        with pytest.raises(ValueError, match="samples: got"):
            normal_mean(samples)
