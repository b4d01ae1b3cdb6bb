"""The score test: its statistic by hand, its level with unequal variances, and its power."""

import numpy as np
import pytest
from scipy import stats

from factorax.discovery import Batch, detectable, score_test


def test_the_statistic_is_the_correlation_test_of_textbooks():
    rng = np.random.default_rng(0)
    z, psi = rng.normal(size=(200, 3)), rng.normal(size=(200, 2))
    z -= z.mean(axis=0)
    found = score_test(Batch(z, psi))
    for i in range(3):
        for j in range(2):
            r = stats.pearsonr(z[:, i], psi[:, j]).statistic
            assert found.effect[i, j] == pytest.approx(r)
            assert found.p_value[i, j] == pytest.approx(2 * stats.t.sf(abs(r) * np.sqrt(200), 199))


def test_robust_studentising_by_hand_and_where_it_is_needed():
    """z² and ψ² both large in one state: the plain test is too bold, the robust one keeps its level."""
    rng = np.random.default_rng(0)
    z, psi = rng.normal(size=(50, 1)), rng.normal(size=(50, 1))
    centred = psi - psi.mean()
    t = (z * centred).sum() / np.sqrt((z**2 * centred**2).sum())
    assert score_test(Batch(z, psi), robust=True).p_value[0, 0] == pytest.approx(2 * stats.t.sf(abs(t), 49))
    scale = np.where(rng.random((400, 2000, 1)) < 0.1, 5.0, 0.5)
    z, psi = scale * rng.normal(size=scale.shape), scale * rng.normal(size=scale.shape)
    for robust, low, high in ((False, 0.2, 1.0), (True, 0.02, 0.085)):
        rate = np.mean([score_test(Batch(z[k], psi[k]), robust=robust).p_value[0, 0] < 0.05 for k in range(400)])
        assert low < rate < high  # binomial: 0.05 ± 3 × 0.011


def test_power_in_words_and_in_fact():
    smallest = detectable(400, 9)
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(300):
        a = rng.normal(size=(400, 3))
        psi = rng.normal(size=(400, 3))
        psi[:, 0] += smallest / np.sqrt(1 - smallest**2) * a[:, 0]
        hits += score_test(Batch(a, psi)).p_value[0, 0] < 0.05 / 9
    assert 0.8 - 3 * 0.023 < hits / 300 < 0.8 + 3 * 0.023
    assert "400 samples and 9 tests: a single edge is found with a probability of 80 %" in str(
        score_test(Batch(a, psi))
    )
    assert "too few samples to find anything" in str(score_test(Batch(a[:9], psi[:9])))
