"""The dependence test: its level and its tail with features of the state, what it can and cannot see."""

from itertools import product

import numpy as np
import pytest
from discovery.data_cases import bandit, with_features, with_one_heavy_action
from scipy import stats

from factorax.discovery import Batch, dependence_test, score_test


@pytest.mark.slow
def test_the_dependence_test_keeps_its_level_with_features_of_the_state():
    """225 repetitions: 5 % of pairs at the 5 % level, with a confidence of 95 % (repetitions are independent)."""
    shares = [(dependence_test(with_features(s)).p_value < 0.05).mean() for s in range(225)]
    assert abs(np.mean(shares) - 0.05) <= 1.96 * np.std(shares) / np.sqrt(225)


@pytest.mark.slow
def test_the_tail_is_right_for_every_action_whatever_the_features_of_others_are():
    """2,000 repetitions: the rate at the 1 % level is not above 1 %, with a confidence of 99.9 % (one-sided).

    A variance corrected for all pairs together gave 1.4 % for the actions with ordinary features: what the heavy
    features of one action take away from its variance was taken away from all.
    """
    p_value = np.array([dependence_test(with_one_heavy_action(s)).p_value for s in range(2000)])
    for level, actions in product((0.01, 0.001), (slice(0, 1), slice(1, None))):
        shares = (p_value[:, actions] < level).mean(axis=(1, 2))  # repetitions are independent, pairs of one are not
        assert shares.mean() - stats.norm.isf(0.001) * shares.std() / np.sqrt(len(shares)) <= level
        assert shares.mean() + stats.norm.isf(0.001) * shares.std() / np.sqrt(len(shares)) >= 0.8 * level  # not timid


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
