"""The Bernoulli distribution against SciPy's."""

import numpy as np
import pytest
from distributions import checks
from scipy import special, stats

from factorax.distributions import Bernoulli

SWITCHES = checks.three(Bernoulli, low=0, high=1, choices=(2, 2, 2))


def test_figures_are_scipys():
    old, new = checks.parameters_of(SWITCHES, 0, ()), checks.parameters_of(SWITCHES, 1, ())
    p, q = special.expit(old[:, 0]), special.expit(new[:, 0])
    log_std = checks.LOG_STD
    for action in ([0.0, 1.0, 0.0], [1.0, 0.0, 1.0]):
        got = SWITCHES.log_prob(old, np.array(action), log_std)
        np.testing.assert_allclose(got, stats.bernoulli.logpmf(action, p))
    np.testing.assert_allclose(SWITCHES.entropy(old, log_std), stats.bernoulli.entropy(p))
    want = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    np.testing.assert_allclose(SWITCHES.kl((old, log_std), (new, log_std)), want)
    np.testing.assert_array_equal(SWITCHES.mode(old), p > 0.5)


def test_probabilities_sum_to_one():
    parameters = checks.parameters_of(SWITCHES, 0, (), 20.0)
    both = [np.exp(SWITCHES.log_prob(parameters, np.full(3, a), checks.LOG_STD)) for a in (0.0, 1.0)]
    np.testing.assert_allclose(sum(both), 1)


@pytest.mark.parametrize("check", [checks.assert_numpy_is_jax, checks.assert_gradients, checks.assert_direction])
def test_in_numpy_and_jax(check):
    check(SWITCHES)


def test_draws_have_the_probabilities():
    parameters, draws = checks.samples(SWITCHES)
    for drawn in draws:
        for column, p in zip(drawn.T, special.expit(parameters[:, 0]), strict=True):
            checks.assert_frequencies(column, [1 - p, p])
    checks.assert_standardised(SWITCHES)
