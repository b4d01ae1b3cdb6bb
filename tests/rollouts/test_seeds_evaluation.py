"""Policies of several seeds evaluated by the programs of one, against each by its own."""

import numpy as np
import pytest

from factorax.ppo import FactoredPPO, devices
from factorax.runs.training import evaluate_together

SIZES = {"n_envs": 4, "n_steps": 8, "batch_size": 16, "n_epochs": 1, "hidden": (8,)}


@pytest.mark.slow
@pytest.mark.parametrize("on_gpu", [False, True])
def test_the_same_returns_as_each_model_alone(monkeypatch, on_gpu):
    # As on a GPU: states, rollouts and updates are programs of their own, and the evaluation is compiled in a thread.
    monkeypatch.setattr(devices, "saves_launches", lambda config, mesh: on_gpu)
    models = [FactoredPPO("chain:4", seed=seed, **SIZES).learn(64, progress_bar=False) for seed in (1, 2)]
    models[0].program.prepare_evaluation(models[0].state, episodes=3)
    for model, (best, sampled) in zip(models, evaluate_together(models, episodes=3), strict=True):
        np.testing.assert_array_equal(best, model.evaluate(3)["episodes"])
        np.testing.assert_array_equal(sampled, model.evaluate(3, deterministic=False)["episodes"])


@pytest.mark.slow
def test_parts_learn_what_one_program_does(monkeypatch):
    whole = FactoredPPO("chain:4", seed=3, **SIZES).learn(64, progress_bar=False)
    monkeypatch.setattr(devices, "saves_launches", lambda config, mesh: True)
    parts = FactoredPPO("chain:4", seed=3, **SIZES, gae_steps=8).learn(64, progress_bar=False)  # a program of its own
    assert parts.history[-1]["train/loss"] == pytest.approx(whole.history[-1]["train/loss"], rel=1e-4)
