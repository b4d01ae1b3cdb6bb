"""The passes over a rollout, and when they stop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factorax.ppo import FactoredPPO
from factorax.ppo.epochs import run_epochs, run_until
from factorax.problems import contextual_bandit

KEYS = jax.random.split(jax.random.key(0), 3)


def order(key):
    return jnp.arange(8).reshape(4, 2)


def counting(carry, indices):
    """Counts minibatches; the measure is how many there were before."""
    return carry + 1, {"measure": carry, "first": indices[0].astype(float)}


def test_all_minibatches_of_all_passes():
    count, metrics = jax.jit(lambda keys: run_epochs(counting, jnp.float32(0), keys, order))(KEYS)
    assert count == 12
    assert metrics == {"measure": np.mean([8, 9, 10, 11]), "first": 3.0}


@jax.jit
def stopped(limit):
    return run_until(counting, jnp.float32(0), KEYS, order, measure="measure", limit=limit)


@pytest.mark.parametrize(
    ("limit", "learnt", "measure"),
    [(100, 12, 9.5), (11, 12, 9.5), (5, 6, 5.0), (3, 4, 4.0), (0, 1, 0.5), (-1, 0, 0.0)],
)
def test_it_stops_before_the_first_minibatch_beyond_the_limit(limit, learnt, measure):
    """Means are over the last pass that was begun, with the minibatch that was refused: 4, 5 and 6 for the limit 5."""
    count, metrics = stopped(limit)
    assert (float(count), int(metrics["train/n_minibatches"])) == (learnt, learnt)
    np.testing.assert_allclose(metrics["measure"], measure)


SMALL = {"n_envs": 8, "n_steps": 16, "batch_size": 32, "learning_rate": 1e-2, "hidden": (8,)}


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["factored", "vanilla"])
def test_target_kl_limits_an_update(estimator):
    """Without a limit all forty minibatches are learnt from; with one, fewer, and the divergence stays near it."""
    settings = {**SMALL, "estimator": estimator}
    far = FactoredPPO(contextual_bandit(4), target_kl=1e3, **settings).learn(128, progress_bar=False).history[0]
    near = FactoredPPO(contextual_bandit(4), target_kl=0.01, **settings).learn(128, progress_bar=False).history[0]
    free = FactoredPPO(contextual_bandit(4), **settings).learn(128, progress_bar=False).history[0]
    assert far["train/n_minibatches"] == 40
    assert 0 < near["train/n_minibatches"] < 40
    assert near["train/joint_kl"] < far["train/joint_kl"]
    np.testing.assert_allclose(far["train/loss"], free["train/loss"], rtol=1e-5)
    assert "train/joint_kl" not in free


@pytest.mark.slow
def test_the_limit_is_on_the_divergence_of_the_whole_action():
    """For the vanilla estimator it is `approx_kl` itself, as in Stable-Baselines3."""
    model = FactoredPPO(contextual_bandit(4), target_kl=1e3, estimator="vanilla", **SMALL)
    metrics = model.learn(128, progress_bar=False).history[0]
    np.testing.assert_allclose(metrics["train/joint_kl"], metrics["train/approx_kl"], rtol=1e-5)
