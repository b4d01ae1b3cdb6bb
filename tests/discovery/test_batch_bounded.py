"""Data collected with trained policies whose raw actions are not those of the environment."""

import numpy as np
import pytest

from factorax.discovery import collect


@pytest.mark.slow
def test_scores_and_uniforms_are_those_of_the_policy(bounded_model):
    """2,000 samples: means and variances within five standard errors."""
    batch = collect(bounded_model.spec.problem, policy=bounded_model, samples=2000, n_envs=50)
    scores = batch.scores if batch.scores.ndim == 2 else batch.scores[..., 0]
    assert np.abs(scores.mean(axis=0)).max() < 5 / np.sqrt(2000)
    assert np.abs((scores**2).mean(axis=0) - 1).max() < 5 * np.sqrt(2 / 2000)
    assert np.abs(batch.uniforms.mean(axis=0) - 0.5).max() < 5 / np.sqrt(12 * 2000)
