"""Minibatches of steps as a GPU takes them: the same update as one network after the other."""

import functools

import jax
import numpy as np
import pytest

from factorax.ppo import Config, Learner, step_samples
from factorax.ppo import learner as learner_module
from factorax.problems import find_problem

SIZES = {"n_envs": 4, "n_steps": 8, "batch_size": 16, "n_epochs": 2, "hidden": (8, 8), "check_network": False}


def _updated(config):
    learner = Learner.of(find_problem("queues:1x2"), config=config)
    state, metrics = jax.jit(learner.update)(learner.init(3))
    return jax.tree.leaves((state.agent, state.optimiser)), metrics


_plainly_updated = functools.cache(_updated)
"""The update of a CPU, compiled once for all tests."""


@pytest.mark.slow
@pytest.mark.parametrize("own", [{"critic": "factor"}, {"critic": "target"}])
def test_fewer_kernels_learn_the_same(monkeypatch, own):
    # With a critic of factors both networks become twins; with one of targets only samples are packed.
    config = Config(**SIZES, policy="shared", identity=0, **own)
    plain, plain_metrics = _plainly_updated(config)
    monkeypatch.setattr(step_samples, "saves_kernels", lambda rule: True)
    fewer, metrics = _updated(config)
    for a, b in zip(plain, fewer, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    assert metrics.keys() == plain_metrics.keys()
    np.testing.assert_allclose(metrics["train/loss"], plain_metrics["train/loss"], rtol=1e-4)


def test_a_cpu_keeps_arrays_apart():
    learner = Learner.of(find_problem("contextual-bandit:4"), config=Config(**SIZES))
    assert isinstance(learner.rule, step_samples.StepUpdate)
    assert not step_samples.saves_kernels(learner.rule)


@pytest.mark.slow
@pytest.mark.parametrize("saves_kernels", [False, True])
def test_large_local_observations_are_computed_where_needed(monkeypatch, saves_kernels):
    config = Config(**SIZES, policy="shared", identity=0, critic="factor")
    kept, kept_metrics = _plainly_updated(config)
    monkeypatch.setattr(step_samples, "saves_kernels", lambda rule: saves_kernels)
    monkeypatch.setattr(learner_module, "LARGEST_SEEN", 0)
    monkeypatch.setattr(step_samples, "LARGEST", 0)
    assert Learner.of(find_problem("queues:1x2"), config=config).sees_later
    computed, metrics = _updated(config)
    for a, b in zip(kept, computed, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    assert metrics.keys() == kept_metrics.keys()
