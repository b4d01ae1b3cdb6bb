"""Batches of data without a simulator, for the tests of several methods of discovery."""

import numpy as np
from scipy import special

from factorax.discovery import Batch, dependence_test, score_test

METHODS = {"score": score_test, "dependence": dependence_test}


def bandit(truth, samples, seed=0, noise=1.0, function=np.abs):
    """Each target the sum of a function of its parents' actions, and noise."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(samples, truth.shape[0]))
    psi = function(a - 0.5) @ truth + noise * rng.normal(size=(samples, truth.shape[1]))
    return Batch(a, psi, special.ndtr(a), kind="one-step")


def with_features(seed, samples=300, n=4, m=4):
    """No edge; features of the state have heavy tails, and the larger they are the more the targets spread."""
    rng = np.random.default_rng(seed)
    a, features = rng.normal(size=(samples, n)), rng.lognormal(size=(samples, n, 2))
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    psi = rng.normal(size=(samples, m)) * (1 + np.abs(features[..., 0]))
    scores = np.concatenate([a[..., None], a[..., None] * features], axis=-1)
    return Batch(scores, psi, special.ndtr(a), state=features.reshape(samples, -1))


def with_one_heavy_action(seed, samples=300, n=4, m=4):
    """No edge; only the features of the first action have heavy tails, and the larger they are the more targets spread.

    For all other actions the statistic is close to its limit for many samples; for the first it is not.
    """
    rng = np.random.default_rng(seed)
    a, features = rng.normal(size=(samples, n)), rng.normal(size=(samples, n, 2))
    features[:, 0] = rng.lognormal(sigma=2.0, size=(samples, 2))
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    psi = rng.normal(size=(samples, m)) * (1 + np.abs(features[:, 0, :1]))
    scores = np.concatenate([a[..., None], a[..., None] * features], axis=-1)
    return Batch(scores, psi, special.ndtr(a), state=features.reshape(samples, -1))
