"""Moments of the dependence test's statistic without an edge: against enumeration, and against drawn actions."""

from itertools import product

import numpy as np
import pytest
from discovery.data_cases import with_features, with_one_heavy_action
from scipy import stats

from factorax.discovery import dependence as module
from factorax.discovery.dependence import null_moments


def statistic(uniforms, targets, features, waves):
    """Of every draw, action and target, ``(R, n, m)``; uniforms are ``(R, N, n)``."""
    k = np.arange(1, waves + 1)[:, None, None, None]
    w = np.sqrt(2) * np.cos(k * np.pi * uniforms)
    x = w[..., None] if features is None else np.concatenate([w[..., None], w[..., None] * features], axis=-1)
    sums = np.einsum("krtif,tj->krfij", x, targets)
    m = targets.shape[1] // 2
    return (sums[..., :m] ** 2 + sums[..., m:] ** 2).sum(axis=(0, 2))


@pytest.mark.parametrize("waves", [1, 2, 3, 4])
@pytest.mark.parametrize("features", [0, 1, 2])
def test_three_moments_are_exact(waves, features):
    """Three samples, all actions of a grid: cosines of it average like those of a uniform number, to high orders."""
    rng = np.random.default_rng(features)
    targets, grid = rng.normal(size=(3, 4)), (np.arange(32) + 0.5) / 32
    of_state = None if features == 0 else rng.normal(size=(3, 1, features))
    every = np.array(list(product(grid, repeat=3)))[..., None]
    drawn = statistic(every, targets, of_state, waves)
    mean, variance, third = null_moments(targets, of_state, waves)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, rtol=1e-9)
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=1e-9)
    np.testing.assert_allclose(((drawn - mean) ** 3).mean(axis=0), third, rtol=1e-8)


@pytest.mark.parametrize("make", [with_features, with_one_heavy_action])
def test_moments_are_those_of_drawn_actions(make):
    """Of every pair by itself, within five standard errors."""
    batch = make(0)
    features = batch.scores[..., 1:] / batch.scores[..., :1]
    rank = np.pi * (stats.rankdata(batch.psi, axis=0) - 0.5) / 300
    targets = np.concatenate([np.cos(rank), np.cos(2 * rank)], axis=1)
    mean, variance, _ = null_moments(targets, features, 2)
    drawn = statistic(np.random.default_rng(1).random((2000, 300, 4)), targets, features, 2)
    for power, moment in ((1, 0 * mean), (2, variance)):
        values = (drawn - mean) ** power
        assert (np.abs(values.mean(axis=0) - moment) < 5 * values.std(axis=0) / np.sqrt(2000)).all()


def test_blocks_of_actions_do_not_matter(monkeypatch):
    rng = np.random.default_rng(0)
    targets, features = rng.normal(size=(40, 6)), rng.normal(size=(40, 5, 2))
    whole = null_moments(targets, features, 4)
    assert whole.shape == (3, 5, 3)
    monkeypatch.setattr(module, "MAX_BLOCK", 2 * 3 * 4 * 9)  # two actions
    np.testing.assert_allclose(null_moments(targets, features, 4), whole, rtol=1e-12)


def test_without_features_all_actions_have_the_same_moments_and_large_samples_are_normal():
    """Orthonormal waves of the target: a sum of 2K squares of normal numbers, χ² of 2K degrees."""
    rank = np.pi * (np.arange(20_000) + 0.5) / 20_000
    targets = np.stack([np.cos(rank), np.cos(2 * rank)], axis=1) / 100
    np.testing.assert_allclose(null_moments(targets, None, 4).ravel(), [8, 16, 64], rtol=1e-3)
