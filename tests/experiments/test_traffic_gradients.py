"""Bias and variance of a light's gradient: against direct differentiation, and against closed forms."""

import threading
from functools import partial

import equinox as eqx
import jax
import jax.flatten_util
import numpy as np
import pytest

import factorax as fx
from factorax.experiments import traffic_gradients
from factorax.experiments.traffic_gradients import EXPERIMENT, PRESETS, Settings, _Sums
from factorax.learning.networks import Policy

SMALL = Settings(1, 2, n_envs=2, batches=3, iterations=1, steps=16)


def test_the_gradient_of_a_street_is_that_of_its_advantage(monkeypatch):
    """For any weights of streets: by differentiating the whole policy, all lights together."""
    learner = traffic_gradients._learner(SMALL)
    state, key = learner.init(0), jax.random.key(3)
    kept = {}

    def kept_gae(*arguments, **options):
        kept["advantage"], returns = fx.learning.gae(*arguments, **options)
        return kept["advantage"], returns

    monkeypatch.setattr(traffic_gradients, "gae", kept_gae)
    found = traffic_gradients.street_gradients(learner, state, key)
    first, second = jax.random.split(key)
    environments = learner.environments
    _, seen = environments.collect(environments.init(first), partial(learner.act, state), second, SMALL.steps)
    weights = np.random.default_rng(0).random((2, 14)).astype(np.float32)
    trained, fixed = eqx.partition(state.agent.policy.net, eqx.is_array)
    flat, unravel = jax.flatten_util.ravel_pytree(trained)

    def objective(flat):
        policy = Policy(eqx.combine(unravel(flat), fixed), state.agent.policy.spread)
        log_prob = learner.update_rule.log_prob(policy(seen.obs, learner.see(seen.obs)), seen.action)
        return (log_prob * (kept["advantage"] @ weights.T)).mean(axis=(0, 1))

    wanted = np.asarray(jax.jacrev(objective)(flat))  # (n, parameters)
    ours = np.einsum("ipe,ie->ip", found, weights)
    np.testing.assert_allclose(ours, wanted, rtol=1e-3, atol=1e-5 * np.abs(wanted).max())
    assert np.abs(wanted).max() > 0


def test_squares_of_means_are_without_their_noise():
    """Gradients N(μ, σ²) of four parameters: ‖μ‖² and 4σ², within four standard errors of 4000 batches."""
    rng = np.random.default_rng(0)
    exact = list(PRESETS).index("corridor")
    mean = np.arange(len(PRESETS) * 4).reshape(len(PRESETS), 1, 4) / 10
    sums = _Sums()
    for _ in range(4000):
        sums.add(mean + 0.5 * rng.standard_normal(mean.shape))
    found = sums.figures()
    np.testing.assert_allclose(found["signal"], (mean**2).sum(axis=-1), atol=0.12)
    np.testing.assert_allclose(found["variance"], 1.0, atol=4 * np.sqrt(2 / 4 / 4000))
    np.testing.assert_allclose(found["bias"], ((mean - mean[exact]) ** 2).sum(axis=-1), atol=0.15)
    assert (found["bias"][exact] == 0).all()


def test_from_batches_to_a_verdict():
    (part,) = EXPERIMENT.parts(SMALL, 0)
    ticks = []
    table = EXPERIMENT.tabulate(SMALL, 0, [part.compute(None, ticks.append, threading.Event())])
    assert ticks == sorted(ticks)
    assert ticks[-1] == pytest.approx(1)
    assert len(table["signal"]) == 2 * len(PRESETS) * 2
    summary = EXPERIMENT.summarise(SMALL, table)
    assert summary["trained"]["corridor"]["bias"] == 0
    figure = EXPERIMENT.draw(SMALL, table, summary)
    assert len(figure.axes) == 2
    (claim,) = EXPERIMENT.claims(SMALL, summary)
    assert claim.verdict in ("holds", "holds in part", "does not hold")
