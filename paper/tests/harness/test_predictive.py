"""Predictive discovery: a closed form, and models without one of the actions."""

import numpy as np
import pytest
from factorax_paper.harness.predictive import THRESHOLDS, predictive
from scipy import special

from factorax.discovery import Batch


def test_prediction_and_its_closed_form():
    """ψ = a + e with variances 1 and s²: I = ½ log(1 + 1/s²), less what four waves cannot say of a line."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(20_000, 2))
    psi = a + 2.0 * rng.normal(size=a.shape)
    found = predictive(Batch(a, psi, special.ndtr(a)))
    assert np.diag(found) == pytest.approx([0.5 * np.log(1.25)] * 2, abs=0.02)
    assert ((found > THRESHOLDS["low"]) == np.eye(2)).all()
    assert not (found > THRESHOLDS["high"]).any()


def test_predictions_without_an_action_are_those_of_a_model_without_it():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(200, 3))
    psi = np.abs(a - 0.5).sum(axis=1, keepdims=True) + rng.normal(size=(200, 1))
    batch = Batch(a, psi, special.ndtr(a))
    whole = predictive(batch, ridge=0.1)
    errors = []
    for kept in ([0, 1, 2], [1, 2]):
        x = np.concatenate([np.ones((200, 1)), *(np.sqrt(2) * np.cos(np.pi * k * batch.uniforms[:, [i]])
                            for i in kept for k in range(1, 5))], axis=1)  # fmt: skip
        psi = (batch.psi - batch.psi.mean()) / batch.psi.std()
        total = 0.0
        for train, held in ((slice(0, 100), slice(100, 200)), (slice(100, 200), slice(0, 100))):
            beta = np.linalg.solve(x[train].T @ x[train] + 20 * np.eye(x.shape[1]), x[train].T @ psi[train])
            total += ((psi[held] - x[held] @ beta) ** 2).sum()
        errors.append(total)
    assert whole[0, 0] == pytest.approx(0.5 * np.log(errors[1] / errors[0]))
