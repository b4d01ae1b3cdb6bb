"""The dependence test: its level with features of the state, moments by redraws, what it can and cannot see."""

import numpy as np
import pytest
from discovery.data_cases import bandit, with_features
from scipy import stats

from factorax.discovery import Batch, dependence_test, score_test
from factorax.discovery.dependence import _moments


@pytest.mark.slow
def test_the_dependence_test_keeps_its_level_with_features_of_the_state():
    """225 repetitions: 5 % of pairs at the 5 % level, with a confidence of 95 % (repetitions are independent)."""
    shares = [(dependence_test(with_features(s), redraws=40, seed=s).p_value < 0.05).mean() for s in range(225)]
    assert abs(np.mean(shares) - 0.05) <= 1.96 * np.std(shares) / np.sqrt(225)


def test_moments_of_the_null_are_those_of_redraws():
    batch = with_features(0)
    features = batch.scores[..., 1:] / batch.scores[..., :1]
    rank = np.pi * (stats.rankdata(batch.psi, axis=0) - 0.5) / 300
    targets = np.concatenate([np.cos(rank), np.cos(2 * rank)], axis=1)
    mean, variance = _moments(targets, features, 2, 4)
    rng, drawn = np.random.default_rng(1), []
    for _ in range(2000):
        waves = np.sqrt(2) * np.cos(np.pi * np.arange(1, 3)[:, None, None] * rng.random((300, 4)))
        x = np.concatenate([waves[..., None], waves[..., None] * features], axis=-1)
        sums = np.einsum("ktif,tj->kfij", x, targets)
        drawn.append((sums[..., :4] ** 2 + sums[..., 4:] ** 2).sum(axis=(0, 1)))
    np.testing.assert_allclose(np.mean(drawn, axis=0), mean, rtol=4 * 0.6 / np.sqrt(2000))
    assert np.mean(np.var(drawn, axis=0) / variance) == pytest.approx(1, abs=0.15)


def test_what_only_the_dependence_test_sees():
    truth = np.eye(3)
    batch = bandit(truth, 2000, function=lambda a: (a + 0.5) ** 2)
    assert not score_test(batch, robust=True).found(0.01).any()
    assert (dependence_test(batch).found(0.001) == (truth > 0)).all()
    rng = np.random.default_rng(0)
    spread = Batch(batch.scores, batch.scores * rng.normal(size=(2000, 3)), batch.uniforms)  # in variance alone
    assert (dependence_test(spread).found(0.001) == (truth > 0)).all()


@pytest.mark.slow
def test_parity_is_beyond_the_dependence_test_as_it_says():
    bits = np.random.default_rng(0).random((4000, 2)) < 0.5
    u = (bits + np.random.default_rng(1).random(bits.shape)) / 2
    batch = Batch(2.0 * bits - 1, (bits[:, :1] ^ bits[:, 1:]).astype(float), u)
    assert not dependence_test(batch).found().any()
    assert "parity" in str(dependence_test(batch))
