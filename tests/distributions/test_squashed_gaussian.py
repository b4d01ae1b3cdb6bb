"""The Gaussian through a tanh: its density, and that of values where the tanh has no slope left."""

import numpy as np
import pytest
from distributions import checks
from scipy import integrate, stats

from factorax.distributions import SquashedGaussian

SQUASHED = checks.three(SquashedGaussian, low=-3, high=1)


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (0.8, -0.7), (-1.5, 0.3)])
def test_the_density_integrates_to_one(mean, log_std):
    """Over the squashed action u = tanh(a) in (−1, 1), where a is the raw action."""
    a = np.linspace(-9, 9, 20001)
    u, parameters = np.tanh(a), np.full((len(a), 3, 1), mean)
    density = np.exp(SQUASHED.log_prob(parameters, np.stack([a] * 3, axis=-1), np.full(3, log_std)))[:, 0]
    np.testing.assert_allclose(integrate.trapezoid(density, u), 1, atol=1e-3)
    inside = np.abs(u) < 0.99
    want = stats.norm.pdf(np.arctanh(u[inside]), mean, np.exp(log_std)) / (1 - u[inside] ** 2)
    np.testing.assert_allclose(density[inside], want, rtol=1e-6)


def test_a_raw_action_far_out_has_a_finite_density():
    got = SQUASHED.log_prob(np.zeros((3, 1), np.float32), np.full(3, 50, np.float32), np.zeros(3, np.float32))
    np.testing.assert_allclose(got, stats.norm.logpdf(50.0) - 2 * (np.log(2) - 50), rtol=1e-5)


def test_entropy_and_divergence_are_those_before_the_tanh():
    old, new, log_std = checks.parameters_of(SQUASHED, 0, ()), checks.parameters_of(SQUASHED, 1, ()), checks.LOG_STD
    np.testing.assert_allclose(SQUASHED.entropy(old, log_std), stats.norm.entropy(0, np.exp(log_std)))
    want = (old[:, 0] - new[:, 0]) ** 2 / (2 * np.exp(2 * log_std))
    np.testing.assert_allclose(SQUASHED.kl((old, log_std), (new, log_std)), want)


@pytest.mark.parametrize("check", [checks.assert_numpy_is_jax, checks.assert_gradients, checks.assert_direction])
def test_in_numpy_and_jax(check):
    check(SQUASHED)


def test_draws_follow_the_distribution_and_lie_in_the_box():
    parameters, draws = checks.samples(SQUASHED)
    for drawn in draws:
        scaled = SQUASHED.rescale(drawn)
        assert -3 <= scaled.min() < -2.5
        assert 0.5 < scaled.max() <= 1
        for i in range(3):
            normal = stats.norm(parameters[i, 0], np.exp(checks.LOG_STD[i]))
            checks.assert_follow(scaled[:, i], lambda x, normal=normal: normal.cdf(np.arctanh((x + 1) / 2)))
    checks.assert_standardised(SQUASHED)


def test_the_neutral_policy_is_a_standard_normal_before_the_tanh():
    mean, deviation = SQUASHED.neutral()
    assert not mean.any()
    assert (deviation == 1).all()
