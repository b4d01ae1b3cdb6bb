"""The ball of the search bandit: its variance against quadrature, its radius against a simulation."""

import itertools

import numpy as np
import pytest
from factorax_paper.harness.ball import noise_of_update, radius


def quadrature(n, degree=60):
    """E[ε₁² (|ε₁| + … + |εₙ|)²] with half-range Gaussian quadrature (|ε| has a kink at 0) on a grid of n axes."""
    x, w = np.polynomial.legendre.leggauss(degree)
    x, w = 5 * (x + 1), 5 * w * 2 * np.exp(-0.5 * (5 * (x + 1)) ** 2) / np.sqrt(2 * np.pi)  # |ε| on (0, 10)
    points = np.array(list(itertools.product(range(degree), repeat=n)))
    size, weight = x[points], w[points].prod(axis=1)
    return float(weight @ (size[:, 0] ** 2 * size.sum(axis=1) ** 2))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_noise_of_an_update_is_its_integral(n):
    assert noise_of_update("VPG", n) == pytest.approx(quadrature(n), rel=1e-6)
    assert noise_of_update("FPG", n) == pytest.approx(quadrature(1), rel=1e-6)


def test_to_one_action_both_are_the_same_and_with_more_vpg_is_noisier():
    assert noise_of_update("VPG", 1) == noise_of_update("FPG", 1) == 3.0
    noises = [noise_of_update("VPG", n) for n in (1, 2, 5, 100)]
    assert noises == sorted(noises)
    assert noises[-1] > 1000 * noises[0]


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["FPG", "VPG"])
def test_the_mean_gap_at_rest(estimator):
    """Simulated, η = 0.01 and n = 3, 4000 chains: within 5 % of the closed form, which is of first order in η."""
    n, eta, rng = 3, 0.01, np.random.default_rng(0)
    d = np.zeros((4000, n))
    for _ in range(8000):
        eps = rng.normal(size=d.shape)
        reward = -np.abs(d + eps) / n
        d += eta * eps * (reward if estimator == "FPG" else reward.sum(axis=1, keepdims=True))
    gap = np.abs(d).mean(axis=1)
    assert gap.std() / np.sqrt(len(gap)) < 0.01 * gap.mean()
    assert gap.mean() == pytest.approx(radius(estimator, n, eta), rel=0.05)


def test_the_radius_grows_as_the_root_of_step_size_times_variance():
    assert radius("FPG", 100, 0.4) == pytest.approx(2 * radius("FPG", 100, 0.1))
    ratio = noise_of_update("VPG", 10) / noise_of_update("FPG", 10)
    assert radius("VPG", 10, 0.1) / radius("FPG", 10, 0.1) == pytest.approx(np.sqrt(ratio))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="estimator: got 'PPO', want FPG or VPG"):
        radius("PPO", 3, 0.1)
