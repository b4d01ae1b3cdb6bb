"""Signal and noise of gradients, against the gradient of every sample."""

import jax.numpy as jnp
import numpy as np
import pytest

import factorax as fx
from factorax.ppo import Config, Learner, diagnostics
from factorax.problems import chain
from ppo.helping import rollout, samples_of

SMALL = {"n_envs": 8, "n_steps": 8, "batch_size": 64, "n_epochs": 2, "hidden": (8,)}


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["joint", "independent", "shared"])
def test_signal_and_noise_are_those_of_single_gradients(policy):
    """Against the gradient of every sample by itself, with respect to the last layer of the factor."""
    config = Config(**SMALL, policy=policy, critic="target", variance_report=True)
    learner = Learner.of(chain(3, horizon=8), config=config)
    rule, state = learner.rule, learner.init()
    batch = rollout(learner, state)
    net, weights = learner.spec.network, learner.spec.weights
    samples = samples_of(rule, state.agent, batch)
    advantage = diagnostics.target_advantages(rule, state.agent, batch, learner.config.hyper)
    total = fx.credit(fx.InfluenceNetwork.complete(1, 3), advantage, weights)
    np.testing.assert_allclose(fx.credit(net, advantage, weights), samples.credit, rtol=1e-4, atol=1e-5)
    by_step = advantage.reshape(batch.psi.shape)
    report = diagnostics.variance_report(learner.spec, state.agent, samples, by_step, net)
    snr = diagnostics.rollout_metrics(rule, state.agent, samples)["factor/gradient_snr"]
    standardised = (samples.credit - samples.credit.mean()) / samples.credit.std(ddof=1)
    hidden = np.broadcast_to(state.agent.policy.net.features(samples.obs, samples.local), (64, 3, 8))
    mean = samples.parameters[..., 0]
    score = np.asarray((samples.action - mean) * jnp.exp(-2 * state.agent.policy.spread.log_std), float)
    z = score[..., None] * np.concatenate([hidden, np.ones((64, 3, 1))], axis=-1)

    def moments(credit):
        g = z * np.asarray(credit, float)[..., None]
        return (g.mean(axis=0) ** 2).sum(axis=-1), g.var(axis=0).sum(axis=-1)

    signal, noise = moments(np.broadcast_to(standardised, (64, 3)))
    noise = noise * 64 / 63
    np.testing.assert_allclose(snr, (signal - noise / 64) / noise, rtol=2e-3, atol=1e-5)
    np.testing.assert_allclose(report["variance/factored"], moments(samples.credit)[1], rtol=2e-3)
    np.testing.assert_allclose(report["variance/vanilla"], moments(np.broadcast_to(total, (64, 3)))[1], rtol=2e-3)
    delta = report["variance/vanilla"] - report["variance/factored"]
    np.testing.assert_allclose(report["variance/delta"], delta, rtol=1e-6)
    squared, kept = (z**2).sum(axis=-1), np.asarray(samples.credit, float)
    b = np.asarray(total, float) - kept
    np.testing.assert_allclose(report["variance/quadratic"], squared.mean(0) * (b**2).mean(0), rtol=2e-3)
    np.testing.assert_allclose(
        report["variance/linear"], 2 * (squared * kept).mean(0) * b.mean(0), rtol=2e-3, atol=1e-4
    )
    covariance = [2 * np.cov(squared[:, i] * kept[:, i], b[:, i], ddof=0)[0, 1] for i in range(3)]
    np.testing.assert_allclose(report["variance/covariance"], covariance, rtol=2e-3, atol=1e-3)
    signal, noise = moments(b)
    np.testing.assert_allclose(report["variance/bias"], signal - noise / 63, rtol=2e-3, atol=1e-5)


def test_the_squared_bias_is_unbiased_and_zero_without_a_signal():
    """Means over many batches of 10 samples: of noise alone, and of noise around 2."""
    rng = np.random.default_rng(0)
    for mean, expected in ((0.0, 0.0), (2.0, 4.0)):
        g = rng.normal(mean, 1.0, (20_000, 10))
        estimates = [
            diagnostics.squared_bias(jnp.array(x.mean() ** 2), jnp.array((x**2).mean()), samples=10) for x in g[:300]
        ]
        whole = g.mean(axis=1) ** 2 - ((g**2).mean(axis=1) - g.mean(axis=1) ** 2) / 9
        np.testing.assert_allclose(estimates, whole[:300], rtol=1e-4, atol=1e-5)
        assert whole.mean() == pytest.approx(expected, abs=4 * whole.std() / np.sqrt(len(whole)))
