"""The Gaussian distribution against SciPy's."""

import numpy as np
import pytest
from distributions import checks
from scipy import integrate, stats

from factorax.distributions import Gaussian

NORMAL = checks.three(Gaussian)
S = np.exp(checks.LOG_STD)


def test_figures_are_scipys():
    old, new = checks.parameters_of(NORMAL, 0, ()), checks.parameters_of(NORMAL, 1, ())
    action, m, n, r = np.array([0.3, -1.0, 2.0]), old[:, 0], new[:, 0], 0.7 * S
    np.testing.assert_allclose(NORMAL.log_prob(old, action, checks.LOG_STD), stats.norm.logpdf(action, m, S))
    np.testing.assert_allclose(NORMAL.entropy(old, checks.LOG_STD), stats.norm.entropy(m, S))
    np.testing.assert_array_equal(NORMAL.mode(old), m)
    want = np.log(r / S) + (S**2 + (m - n) ** 2) / (2 * r**2) - 0.5
    np.testing.assert_allclose(NORMAL.kl((old, checks.LOG_STD), (new, np.log(r))), want)


def test_the_density_integrates_to_one():
    parameters = checks.parameters_of(NORMAL, 0, ())
    a = np.linspace(-20, 20, 4001)
    density = np.exp(NORMAL.log_prob(np.broadcast_to(parameters, (4001, 3, 1)), a[:, None], checks.LOG_STD))
    np.testing.assert_allclose(integrate.trapezoid(density, a, axis=0), 1)


@pytest.mark.parametrize("check", [checks.assert_numpy_is_jax, checks.assert_gradients, checks.assert_direction])
def test_in_numpy_and_jax(check):
    check(NORMAL)


def test_draws_follow_the_distribution():
    parameters, draws = checks.samples(NORMAL)
    for drawn in draws:
        for i in range(3):
            checks.assert_follow(drawn[:, i], stats.norm(parameters[i, 0], S[i]).cdf)
    checks.assert_standardised(NORMAL)


def test_the_neutral_policy_covers_the_bounds():
    mean, deviation = checks.three(Gaussian, low=-2, high=6).neutral()
    np.testing.assert_array_equal(mean[:, 0], 2)
    np.testing.assert_array_equal(deviation, 2)
    mean, deviation = checks.three(Gaussian, low=0).neutral()
    np.testing.assert_array_equal(mean[:, 0], 0)
    np.testing.assert_array_equal(deviation, 1)
