"""Gradients by street: against direct differentiation, and against closed forms."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.flatten_util
import numpy as np
import pytest
from factorax_paper.experiments.traffic_gradients import GRIDS, Settings, learner_of
from factorax_paper.harness import street_gradients as module
from factorax_paper.harness.street_gradients import figures_of, jackknife, square

import factorax as fx
from factorax.networks.policies import Policy

SMALL = Settings(n_envs=2, batches=3, iterations=1, steps=16)
SMALL_GRID = replace(GRIDS["3x3"], rows=1, columns=2)


@pytest.mark.slow
def test_the_gradient_of_a_street_is_that_of_its_advantage(monkeypatch):
    """For any weights of streets: by differentiating the whole policy, all lights together."""
    learner = learner_of(SMALL_GRID, SMALL)
    state, key = learner.init(0), jax.random.key(3)
    kept = {}

    def kept_gae(*arguments, **options):
        kept["advantage"], returns = fx.ppo.gae(*arguments, **options)
        return kept["advantage"], returns

    monkeypatch.setattr(module, "gae", kept_gae)

    @eqx.filter_jit
    def measured(state, key):
        found = module.street_gradients(learner, state, key)
        first, second = jax.random.split(key)
        _, transitions = learner.collect(state._replace(environments=learner.collector.init(first), key=second))
        return found, kept["advantage"], transitions

    found, advantage, seen = measured(state, key)
    weights = np.random.default_rng(0).random((2, 14)).astype(np.float32)
    trained, fixed = eqx.partition(state.agent.policy.net, eqx.is_array)
    flat, unravel = jax.flatten_util.ravel_pytree(trained)

    def objective(flat):
        policy = Policy(eqx.combine(unravel(flat), fixed), state.agent.policy.spread)
        log_prob = learner.rule.log_prob(policy(seen.obs, learner.rule.local(seen.obs)), seen.action)
        return (log_prob * (advantage @ weights.T)).mean(axis=(0, 1))

    wanted = np.asarray(jax.jit(jax.jacrev(objective))(flat))  # (n, parameters)
    ours = np.einsum("ipe,ie->ip", found, weights)
    np.testing.assert_allclose(ours, wanted, rtol=1e-3, atol=1e-5 * np.abs(wanted).max())
    assert np.abs(wanted).max() > 0


def test_squares_of_means_are_without_their_noise():
    """Gradients N(μ, σ²) of four parameters: ‖μ‖² and 4σ², within four standard errors, which the jackknife tells."""
    rng = np.random.default_rng(0)
    exact = 3
    mean = np.arange(5 * 4).reshape(5, 1, 4) / 10
    found = figures_of(mean + 0.5 * rng.standard_normal((4000, *mean.shape)), exact)
    np.testing.assert_allclose(found["signal"], (mean**2).sum(axis=-1), atol=0.12)
    np.testing.assert_allclose(found["variance"], 1.0, atol=4 * np.sqrt(2 / 4 / 4000))
    apart = ((mean - mean[exact]) ** 2).sum(axis=-1)
    error = found["bias_without"].std(axis=0) * np.sqrt(3999)
    # Of ‖d̄‖² with d ~ N(δ, 2σ²): 2 ‖δ‖ √2 σ / √4000, where δ is not zero.
    others = [i for i in range(5) if i != exact]
    np.testing.assert_allclose(error[others], 2 * np.sqrt(apart * 0.5 / 4000)[others], rtol=0.1)
    assert (np.abs(found["bias"] - apart)[others] < 4 * error[others]).all()
    assert (found["bias"][exact] == 0).all()


def test_pairs_are_those_of_different_batches():
    g = np.random.default_rng(0).standard_normal((5, 2, 3, 4))
    squares, without = square(g)
    pairs = [(g[a] * g[b]).sum(axis=-1) for a in range(5) for b in range(5) if a != b]
    np.testing.assert_allclose(squares, np.mean(pairs, axis=0))
    np.testing.assert_allclose(without[2], square(np.delete(g, 2, axis=0))[0])


def test_variances_without_a_batch_are_those_of_the_others():
    g = np.random.default_rng(0).standard_normal((6, 2, 3, 4))
    found = figures_of(g, 0)
    np.testing.assert_allclose(found["variance"], g.var(axis=0, ddof=1).sum(axis=-1))
    np.testing.assert_allclose(found["variance_without"][4], figures_of(np.delete(g, 4, axis=0), 0)["variance"])


def test_the_jackknife_of_a_mean_is_its_standard_error():
    x = np.random.default_rng(0).standard_normal((50, 1, 1))
    without = (x.sum() - x) / 49
    np.testing.assert_allclose(jackknife(without), x.std(ddof=1) / np.sqrt(50))
