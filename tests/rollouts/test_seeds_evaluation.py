"""Several policies evaluated by one program, against one after the other."""

import jax
import numpy as np
import pytest

from factorax.learning import FactoredPPO, devices
from factorax.runs.seeds import evaluate_seeds, stacked

SIZES = {"n_envs": 4, "n_steps": 8, "batch_size": 16, "n_epochs": 1, "hidden": (8,)}


@pytest.mark.slow
@pytest.mark.parametrize("on_gpu", [False, True])
def test_the_same_returns_as_one_after_the_other(monkeypatch, on_gpu):
    # As on a GPU: states, rollouts and updates are programs of their own, and the evaluation is compiled in a thread
    # while updates are.
    monkeypatch.setattr(devices, "saves_launches", lambda config, mesh: on_gpu)
    models = [FactoredPPO("chain:4", seed=seed, **SIZES).learn(64, progress_bar=False) for seed in (1, 2)]
    models[0].program.prepare_evaluation(stacked([model.state for model in models]), episodes=3)
    together = evaluate_seeds(models, episodes=3)
    for model, (best, sampled) in zip(models, together, strict=True):
        np.testing.assert_allclose(best, model.evaluate(3)["episodes"], rtol=1e-5)
        np.testing.assert_allclose(sampled, model.evaluate(3, deterministic=False)["episodes"], rtol=1e-5)


@pytest.mark.slow
def test_parts_learn_what_one_program_does(monkeypatch):
    whole = FactoredPPO("chain:4", seed=3, **SIZES).learn(64, progress_bar=False)
    monkeypatch.setattr(devices, "saves_launches", lambda config, mesh: True)
    parts = FactoredPPO("chain:4", seed=3, **SIZES, gae_steps=8).learn(64, progress_bar=False)  # a program of its own
    assert parts.history[-1]["train/loss"] == pytest.approx(whole.history[-1]["train/loss"], rel=1e-4)


def test_an_evaluation_is_compiled_again_if_settings_of_jax_are_of_one_thread():
    model = FactoredPPO("chain:4", seed=1, **SIZES)
    evaluation = model.program._evaluation(1, 3)
    with jax.default_matmul_precision("float32"):
        evaluation.prepare(model.learner.behaviour(stacked([model.state])).act, 1)
    assert evaluation._compiled is not None
    assert evaluation._compiled.result() is None
    assert evaluate_seeds([model], episodes=3)[0][0].shape == (3,)
