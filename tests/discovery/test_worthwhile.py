"""Which edges pay: closed forms of bias and variance, and the error of the gradient itself."""

import numpy as np
import pytest

import factorax as fx
from factorax.discovery import Batch
from factorax.discovery.worthwhile import worth


def linear(matrix, samples, seed):
    """ψ = a M + e: E[a ψⱼ] = Mᵢⱼ, V[aᵢ ψⱼ] = |M_·j|² + 1 + Mᵢⱼ²."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(samples, len(matrix)))
    return Batch(a, a @ matrix + rng.normal(size=(samples, matrix.shape[1])))


SMALL = np.diag([1.0] * 12) + np.diag([0.08] * 11, k=1)


def test_bias_and_variance_in_closed_form():
    found = worth(linear(SMALL, 60_000, 0))
    np.testing.assert_allclose(found.variance, (SMALL**2).sum(axis=0) + 1 + SMALL**2, rtol=0.05)
    np.testing.assert_allclose(np.sqrt(np.diag(found.squared_bias)), 1, atol=0.03)
    assert np.sqrt(found.squared_bias[SMALL == 0]).max() < 0.015
    assert found.share == pytest.approx(23 / 144, abs=0.06)


def test_the_rule_at_both_ends():
    batch = linear(SMALL, 60_000, 0)
    assert (fx.discovery.worthwhile_network(batch, n_samples=50).to_dense() == (SMALL == 1)).all()  # 0.08² < 2/50
    assert (fx.discovery.worthwhile_network(batch, n_samples=2000).to_dense() == (SMALL > 0)).all()  # 0.08² > 2/2000


def test_shrinkage_keeps_noise_out():
    """As many samples to estimate from as in the batch: |ĝ|² > s² keeps P(|t| > 1) = 0.32 of the absent edges."""
    absent, ours, plain = ~np.eye(12, dtype=bool), [], []
    for seed in range(20):
        batch = linear(np.eye(12), 200, seed)
        kept = fx.discovery.worthwhile_network(batch, n_samples=200).to_dense()
        assert np.diag(kept).all()
        ours.append(kept[absent].mean())
        plain.append(((batch.scores.T @ batch.psi / 200) ** 2 > worth(batch).variance / 200)[absent].mean())
    assert np.mean(plain) == pytest.approx(0.317, abs=0.03)  # 2640 pairs: three standard errors
    assert np.mean(ours) < 0.06


@pytest.mark.parametrize("size", [20, 400, 20_000])
def test_the_gradient_has_the_least_error(size):
    """Mean squared error of ĝ from `size` samples: no worse than complete, true and local networks, by a quarter.

    Estimated from 20,000 samples. With as few as the batch has, what is chosen is noisy itself.
    """
    weak = np.diag([1.0] * 12) + np.diag([0.15] * 11, k=1)
    variance = (weak**2).sum(axis=0) + 1 + weak**2

    def error(net):
        return ((1 - net) ** 2 * weak**2 + net**2 * variance / size).sum()

    batch = linear(weak, 20_000, 2)
    others = [np.ones((12, 12)), weak > 0, weak == 1]
    best = min(error(np.asarray(net, float)) for net in others)
    hard = error(fx.discovery.worthwhile_network(batch, n_samples=size).to_dense().astype(float))
    soft = error(fx.discovery.worthwhile_network(batch, n_samples=size, form="soft").to_dense())
    assert hard <= 1.25 * best
    assert soft <= 1.25 * best


def test_weights_and_errors():
    batch = linear(SMALL, 1000, 0)
    weighted = Batch(batch.scores, batch.psi, weights=np.full(12, 3.0))
    np.testing.assert_allclose(worth(weighted).variance, 9 * worth(batch).variance)
    with pytest.raises(ValueError, match="form: got 'mushy', want 'hard' or 'soft'"):
        fx.discovery.worthwhile_network(batch, n_samples=5, form="mushy")
    with pytest.raises(ValueError, match="n_samples: got 0, want a whole number from 1 to 2,147,483,647"):
        fx.discovery.worthwhile_network(batch, n_samples=0)
