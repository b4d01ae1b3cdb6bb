"""Covariances within a factor, natural gradients, no critic, sweeps of settings, idle factors."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import factorax as fx
from factorax.ppo import Config, FactoredPPO, Learner, diagnostics
from factorax.ppo.losses import standardise
from factorax.problems import chain, contextual_bandit
from factorax.structure import Factorisation
from ppo.helping import loss_of, rollout, samples_of

SMALL = {"n_envs": 8, "n_steps": 8, "batch_size": 64, "n_epochs": 2, "hidden": (8,)}


@pytest.mark.slow
def test_a_correlation_is_learnt():
    """The target is −(a₀ + a₁)² − (a₀ − a₁)²/100: the best policy of one spread has a₁ ≈ −a₀."""
    good = chain(2, horizon=1)

    def step(key, state, action):
        psi = -jnp.array([(action[0] + action[1]) ** 2 + (action[0] - action[1]) ** 2 / 100])
        return good.step(key, state, action)._replace(psi=psi)

    net = fx.InfluenceNetwork([[1], [1]])
    problem = dataclasses.replace(good, step=step, network=net, weights=np.ones(1), local=None)
    settings = SMALL | {"n_steps": 64, "learning_rate": 1e-2, "ent_coef": 0.02, "n_epochs": 4}
    factored = net.factor(Factorisation([[0, 1]], 2))
    model = FactoredPPO(problem, factored, distribution="scale,std=full", **settings).learn(20_000, progress_bar=False)
    W = float(model.state.agent.policy.spread.mixing[0, 1, 0])
    assert W < -0.8
    plain = FactoredPPO(problem, factored, **settings)
    assert plain.state.agent.policy.spread.mixing.size == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{"method": "natural,kl=0.01"}, {"method": "a2c", "critic": "none", "gae_lambda": 1.0}],
    ids=["natural", "REINFORCE"],
)
def test_variants_learn(settings):
    problem = contextual_bandit(3)
    model = FactoredPPO(problem, **SMALL | {"n_steps": 32}, learning_rate=1e-2, **settings)
    before = model.evaluate(64, deterministic=False)
    after = model.learn(25_000, progress_bar=False).evaluate(64, deterministic=False)
    assert after["return"] - before["return"] > 3 * np.hypot(before["error"], after["error"])


@pytest.mark.slow
def test_without_a_critic_the_credit_is_what_followed():
    learner = Learner.of(chain(3, horizon=8), config=Config(**SMALL, critic="none", gamma=0.9, gae_lambda=1.0))
    state = learner.init()
    assert state.agent.critic is None
    batch = rollout(learner, state)
    got = samples_of(learner.rule, state.agent, batch).credit.reshape(8, 8, 3)
    to_go, want = np.zeros((8, 3)), []
    for psi in np.asarray(batch.psi)[::-1]:  # horizon and rollout end together
        to_go = psi + 0.9 * to_go
        want.insert(0, to_go)
    want = fx.credit(learner.spec.network, np.array(want), learner.spec.weights)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_settings_side_by_side_are_settings_apart():
    """One program for three rates and two discounts; each is what a learner of its own would do."""
    problem = contextual_bandit(3)
    base = Config(**SMALL, anneal=("learning_rate",), total_timesteps=128)
    learner = Learner.of(problem, config=base)
    rates, discounts = jnp.array([1e-3, 1e-2, 1e-1]), jnp.array([0.5, 0.9, 0.9])
    states = jax.vmap(lambda r, d: learner.init(0, learning_rate=r, gamma=d))(rates, discounts)
    together = jax.jit(jax.vmap(learner.update))
    for _ in range(2):
        states, metrics = together(states)
    for i, (rate, gamma) in enumerate(zip(rates.tolist(), discounts.tolist(), strict=True)):
        alone = Learner.of(problem, config=dataclasses.replace(base, learning_rate=rate, gamma=gamma))
        state, update = alone.init(0), jax.jit(alone.update)
        for _ in range(2):
            state, want = update(state)
        np.testing.assert_allclose(metrics["train/learning_rate"][i], want["train/learning_rate"], rtol=1e-5)
        for a, b in zip(jax.tree.leaves(states.agent), jax.tree.leaves(state.agent), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-3, atol=1e-4)
    with pytest.raises(
        ValueError, match=r"hyper: got n_epochs, want some of learning_rate, .*pass other settings to Config"
    ):
        learner.init(0, n_epochs=3)


@pytest.mark.slow
def test_an_idle_factor_counts_nowhere():
    """Not in the normalisation, the entropy, the divergence, nor in the signal: its credits may be anything."""
    learner = Learner.of(chain(3, horizon=8), config=Config(**SMALL))
    rule, state = learner.rule, learner.init()
    mask = jnp.broadcast_to(jnp.array([True, False, True]), (8, 8, 3))
    batch = rollout(learner, state)._replace(factor_mask=mask)
    samples = samples_of(rule, state.agent, batch)
    other = samples._replace(credit=samples.credit.at[:, 1].set(1e6))
    for s in (samples, other):
        standardised = np.asarray(standardise(s.credit, s.acted))[:, [0, 2]]
        np.testing.assert_allclose(standardised.mean(), 0, atol=1e-5)
        np.testing.assert_allclose(standardised.std(ddof=1), 1, rtol=1e-4)
    np.testing.assert_allclose(loss_of(rule, state.agent, samples), loss_of(rule, state.agent, other), rtol=1e-5)
    a, b = (diagnostics.update_metrics(rule, state.agent, state.agent, s, state.hyper) for s in (samples, other))
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=1e-5, atol=1e-6, err_msg=name)
    assert a["factor/entropy"][1] == a["factor/kl"][1] == 0
    np.testing.assert_allclose(a["train/entropy_loss"], -2 * (0.5 * np.log(2 * np.pi * np.e) + np.log(0.5)), rtol=1e-5)
    for s in (samples, other):
        assert diagnostics.rollout_metrics(rule, state.agent, s)["factor/gradient_snr"][1] == 0
