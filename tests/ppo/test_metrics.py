"""The metrics of updates as users get them, and the history of a model."""

import jax.numpy as jnp
import numpy as np
import pytest

from factorax.ppo import Config, FactoredPPO, metrics
from factorax.ppo.metrics import checked_metrics, copied, remember
from factorax.problems import contextual_bandit


def test_metrics_are_numbers_and_arrays_that_share_nothing_with_jax():
    loss, vector = jnp.float32(0.1), jnp.arange(3.0)
    got = copied({"loss": loss, "vector": vector})
    assert type(got["loss"]) is np.float32
    assert got["loss"] == np.float32(0.1)
    assert got["vector"].base is None
    assert got["vector"].flags.owndata
    np.testing.assert_array_equal(got["vector"], vector, strict=True)


def test_a_history_is_bounded_by_updates_and_by_numbers(monkeypatch):
    monkeypatch.setattr(metrics, "HISTORY", 300)
    history = []
    for i in range(400):
        remember(history, {"i": i})
    assert [row["i"] for row in history] == list(range(100, 400))
    monkeypatch.setattr(metrics, "_NUMBERS", 2000)
    remember(history, {"i": 400, "vector": np.zeros(9)})
    assert [row["i"] for row in history] == list(range(201, 401))
    remember(history, {"i": 401, "vector": np.zeros(10**5)})
    assert [row["i"] for row in history] == list(range(302, 402))


@pytest.mark.slow
def test_the_history_of_a_model_keeps_no_buffer_of_an_update(monkeypatch):
    """54 KiB an update it were, for 352 bytes of numbers, and none was ever dropped."""
    monkeypatch.setattr(metrics, "HISTORY", 3)
    settings = {"n_envs": 2, "n_steps": 4, "batch_size": 8, "n_epochs": 1, "hidden": (4,)}
    model = FactoredPPO(contextual_bandit(2), **settings).learn(40, progress_bar=False)
    assert [row["time/total_timesteps"] for row in model.history] == [24, 32, 40]
    for name, value in model.history[-1].items():
        assert isinstance(value, np.generic | int | float) or (type(value) is np.ndarray and value.base is None), name


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ((1, 2, 0), "environment 2, step 1 of the rollout after step 8: target 0 is not finite"),
        ((1, 2, 2), "environment 2, step 1 of the rollout after step 8: the observation is not finite"),
    ],
)
def test_what_is_not_finite_is_named(where, message):
    rollout = {"rollout/not_finite": np.array(where), "rollout/ep_targets_mean": np.zeros(2), "rollout/episodes": 1}
    with pytest.raises(FloatingPointError, match=message):
        checked_metrics(rollout, Config(), 8)
