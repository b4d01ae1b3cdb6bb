"""Policies of several seeds evaluated by the programs of one, against each by its own."""

import numpy as np
import pytest

from factorax.ppo import FactoredPPO
from factorax.runs.training import evaluate_together

SIZES = {"n_envs": 4, "n_steps": 8, "batch_size": 16, "n_epochs": 1, "hidden": (8,)}


@pytest.mark.slow
def test_the_same_returns_as_each_model_alone():
    models = [FactoredPPO("chain:4", seed=seed, **SIZES).learn(64, progress_bar=False) for seed in (1, 2)]
    for model, (best, sampled) in zip(models, evaluate_together(models, episodes=3), strict=True):
        np.testing.assert_array_equal(best, model.evaluate(3)["episodes"])
        np.testing.assert_array_equal(sampled, model.evaluate(3, deterministic=False)["episodes"])
