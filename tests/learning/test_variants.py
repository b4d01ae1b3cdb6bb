"""Covariances within a factor, natural steps, no critic, sweeps of settings; signal and noise of gradients."""

import dataclasses

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import factorax as fx
from factorax.learning import ActionSpace, Config, FactoredPPO, Learner
from factorax.problems import chain, contextual_bandit
from factorax.structure import Factorisation

SMALL = {"n_envs": 8, "n_steps": 8, "batch_size": 64, "n_epochs": 2, "hidden": (8,)}
FACTORS = np.array([0, 1, 0, 0, 1, 2])


def correlated(seed):
    """Three factors of 3, 2 and 1 Gaussians; a mean and a spread of them."""
    space = ActionSpace.of(gym.spaces.Box(-np.inf, np.inf, (6,))).with_covariance(FACTORS)
    keys = jax.random.split(jax.random.key(seed), 3)
    spread = space.spread(0.0)
    spread = spread._replace(
        log_std=0.3 * jax.random.normal(keys[0], (6,)), mixing=jax.random.normal(keys[1], spread.mixing.shape)
    )
    return space, jax.random.normal(keys[2], (6, 1)), spread


def covariance(space, spread):
    """Σ = (I − W)⁻¹ diag σ² (I − W)⁻ᵀ, with W laid out in full."""
    W = np.zeros((6, 6))
    for block, matrix in zip(space.blocks, np.asarray(spread.mixing, float), strict=True):
        for i, a in enumerate(block):
            for j, b in enumerate(block[:i]):
                if a < 6 and b < 6:
                    W[a, b] = matrix[i, j]
    half = np.linalg.inv(np.eye(6) - W) * np.exp(np.asarray(spread.log_std, float))
    return half @ half.T


def by_factor(x):
    return np.bincount(FACTORS, np.asarray(x, float))


def test_a_factor_has_a_full_covariance_and_no_more():
    """Density, entropy and divergence of every factor are those of SciPy's normal distribution."""
    (space, mean, spread), (_, other, new) = correlated(0), correlated(1)
    full, full_new = covariance(space, spread), covariance(space, new)
    across = FACTORS[:, None] != FACTORS
    np.testing.assert_allclose(full[across], 0, atol=1e-12)
    assert np.abs(full[~across]).min() > 1e-3
    a = jnp.linspace(-1, 2, 6)
    log_prob, entropy = by_factor(space.log_prob(mean, spread, a)), by_factor(space.entropy(mean, spread))
    kl = by_factor(space.kl((mean, spread), (other, new)))
    for i in range(3):
        of = np.flatnonzero(i == FACTORS)
        m, n = (np.asarray(x, float)[of, 0] for x in (mean, other))
        S, R = full[np.ix_(of, of)], full_new[np.ix_(of, of)]
        normal = stats.multivariate_normal(m, S)
        np.testing.assert_allclose(log_prob[i], normal.logpdf(np.asarray(a)[of]), rtol=1e-4)
        np.testing.assert_allclose(entropy[i], normal.entropy(), rtol=1e-4)
        inverse = np.linalg.inv(R)
        logs = np.linalg.slogdet(R)[1] - np.linalg.slogdet(S)[1]
        want = 0.5 * (np.trace(inverse @ S) + (m - n) @ inverse @ (m - n) - len(of) + logs)
        np.testing.assert_allclose(kl[i], want, rtol=1e-4)


def test_draws_have_that_covariance():
    """40,000 of them: every entry within 4.5 standard errors, which for Gaussians are √((S_ij² + S_ii S_jj) / N)."""
    space, mean, spread = correlated(2)
    drawn = space.sample(jax.random.key(3), jnp.broadcast_to(mean, (40_000, 6, 1)), spread)
    want = covariance(space, spread)
    error = np.sqrt((want**2 + np.outer(np.diag(want), np.diag(want))) / 40_000)
    assert (np.abs(np.cov(np.asarray(drawn, float).T) - want) / error).max() < 4.5
    np.testing.assert_allclose(
        np.asarray(drawn).mean(axis=0), mean[:, 0], atol=4.5 * np.sqrt(np.diag(want).max() / 4e4)
    )


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
    model = FactoredPPO(problem, factored, covariance="full", **settings).learn(20_000, progress_bar=False)
    W = float(model.state.agent.policy.spread.mixing[0, 1, 0])
    assert W < -0.8
    plain = FactoredPPO(problem, factored, **settings)
    assert plain.state.agent.policy.spread.mixing.size == 0


@pytest.mark.parametrize("estimator", ["factored", "vanilla"])
def test_a_natural_step_solves_its_equation(estimator):
    """The step is along (F + damping)⁻¹ g, with F written out as the second derivative of the divergence."""
    learner = Learner.of(
        chain(3, horizon=8),
        config=Config(**SMALL | {"hidden": ()}, objective="natural", kl_target=1e-4, estimator=estimator, vf_coef=0.0),
    )
    rule, state = learner.update_rule, learner.init()
    _, seen = learner.environments.collect(
        state.environments, lambda k, obs: learner.act(state, k, obs), state.key, learner.config.n_steps
    )
    net = learner.network if estimator == "factored" else fx.InfluenceNetwork.complete(1, 3)
    batch = fx.learning.Batch(
        seen.obs, None, seen.action, seen.psi, seen.next_obs, None, seen.terminated, seen.truncated
    )
    samples = rule.samples(state.agent, batch, net)
    params, rest = eqx.partition(state.agent.policy, eqx.is_array)
    flat, unflatten = jax.flatten_util.ravel_pytree(params)
    old = state.agent.policy.spread

    def policy(x):
        return eqx.combine(unflatten(x), rest)

    def kl(x):
        return rule.divergence(samples, old, policy(x)(samples.obs, None)).sum(axis=-1).mean()

    g = jax.grad(lambda x: rule.policy_loss(policy(x), samples, old, 0.0, learner.config.hyper)[0])(flat)
    F = np.asarray(jax.hessian(kl)(flat), float)
    x = -np.linalg.solve(F + learner.config.damping * np.eye(len(F)), np.asarray(g, float))
    want = x * np.sqrt(2 * 3 * 1e-4 / (x @ F @ x))
    new, *_ = rule.learn(state.agent, state.optimiser, state.kl_coef, batch, jax.random.key(0), net)
    got = np.asarray(jax.flatten_util.ravel_pytree(eqx.filter(new.policy, eqx.is_array))[0] - flat, float)
    np.testing.assert_allclose(got, want, rtol=2e-2, atol=2e-5)
    np.testing.assert_allclose(kl(flat + got), 3 * 1e-4, rtol=0.05)  # its length


@pytest.mark.parametrize(
    "settings",
    [{"objective": "natural", "kl_target": 0.01}, {"objective": "a2c", "critic": "none", "gae_lambda": 1.0}],
    ids=["natural", "REINFORCE"],
)
def test_variants_learn(settings):
    problem = contextual_bandit(3)
    model = FactoredPPO(problem, **SMALL | {"n_steps": 32}, learning_rate=1e-2, **settings)
    before = model.evaluate(64, deterministic=False)
    after = model.learn(25_000, progress_bar=False).evaluate(64, deterministic=False)
    assert after["return"] - before["return"] > 3 * np.hypot(before["error"], after["error"])


def test_without_a_critic_the_credit_is_what_followed():
    learner = Learner.of(chain(3, horizon=8), config=Config(**SMALL, critic="none", discount=0.9, gae_lambda=1.0))
    state = learner.init()
    assert state.agent.critic is None
    _, seen = learner.environments.collect(
        state.environments, lambda k, obs: learner.act(state, k, obs), state.key, learner.config.n_steps
    )
    batch = fx.learning.Batch(
        seen.obs, None, seen.action, seen.psi, seen.next_obs, None, seen.terminated, seen.truncated
    )
    got = learner.update_rule.samples(state.agent, batch, learner.network).credit.reshape(8, 8, 3)
    to_go, want = np.zeros((8, 3)), []
    for psi in np.asarray(seen.psi)[::-1]:  # horizon and rollout end together
        to_go = psi + 0.9 * to_go
        want.insert(0, to_go)
    np.testing.assert_allclose(got, fx.credit(learner.network, np.array(want), learner.weights), rtol=1e-4, atol=1e-5)


def test_settings_side_by_side_are_settings_apart():
    """One program for three rates and two discounts; each is what a learner of its own would do."""
    problem = contextual_bandit(3)
    base = Config(**SMALL, anneal=("learning_rate",), total_timesteps=128)
    learner = Learner.of(problem, config=base)
    rates, discounts = jnp.array([1e-3, 1e-2, 1e-1]), jnp.array([0.5, 0.9, 0.9])
    states = jax.vmap(lambda r, d: learner.init(0, learning_rate=r, discount=d))(rates, discounts)
    together = jax.jit(jax.vmap(learner.update))
    for _ in range(2):
        states, metrics = together(states)
    for i, (rate, discount) in enumerate(zip(rates.tolist(), discounts.tolist(), strict=True)):
        alone = Learner.of(problem, config=dataclasses.replace(base, learning_rate=rate, discount=discount))
        state = alone.init(0)
        for _ in range(2):
            state, want = alone.compiled(state)
        np.testing.assert_allclose(metrics["train/learning_rate"][i], want["train/learning_rate"], rtol=1e-5)
        for a, b in zip(jax.tree.leaves(states.agent), jax.tree.leaves(state.agent), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-3, atol=1e-4)
    with pytest.raises(ValueError, match=r"hyper: got n_epochs, want some of learning_rate, .*give them to Config"):
        learner.init(0, n_epochs=3)


@pytest.mark.parametrize("policy", ["joint", "independent", "shared"])
def test_signal_and_noise_are_those_of_single_gradients(policy):
    """Against the gradient of every sample by itself, with respect to the last layer of the factor."""
    learner = Learner.of(chain(3, horizon=8), config=Config(**SMALL, policy=policy, variance_report=True))
    rule, state = learner.update_rule, learner.init()
    _, seen = learner.environments.collect(
        state.environments, lambda k, obs: learner.act(state, k, obs), state.key, learner.config.n_steps
    )
    see = learner.see
    batch = fx.learning.Batch(
        seen.obs,
        see(seen.obs),
        seen.action,
        seen.psi,
        seen.next_obs,
        see(seen.next_obs),
        seen.terminated,
        seen.truncated,
    )
    net = learner.network
    samples = rule.samples(state.agent, batch, net)
    total = rule.samples(state.agent, batch, fx.InfluenceNetwork.complete(1, 3)).credit
    advantage = rule.by_target(state.agent, batch, learner.config.hyper).credit
    np.testing.assert_allclose(fx.credit(net, advantage, learner.weights), samples.credit, rtol=1e-4, atol=1e-5)
    found = rule.diagnose(state.agent, samples) | rule.variances(state.agent, samples, advantage, net)
    hidden = np.broadcast_to(state.agent.policy.net.features(samples.obs, samples.local), (64, 3, 8))
    mean = samples.parameters[..., 0]
    score = np.asarray((samples.action - mean) * jnp.exp(-2 * state.agent.policy.spread.log_std), float)
    z = score[..., None] * np.concatenate([hidden, np.ones((64, 3, 1))], axis=-1)

    def moments(credit):
        g = z * np.asarray(credit, float)[..., None]
        return (g.mean(axis=0) ** 2).sum(axis=-1), g.var(axis=0).sum(axis=-1)

    signal, noise = moments(np.broadcast_to(rule.normalised(samples), (64, 3)))
    noise = noise * 64 / 63
    np.testing.assert_allclose(found["factor/gradient_snr"], (signal - noise / 64) / noise, rtol=2e-3, atol=1e-5)
    np.testing.assert_allclose(found["variance/factored"], moments(samples.credit)[1], rtol=2e-3)
    np.testing.assert_allclose(found["variance/vanilla"], moments(np.broadcast_to(total, (64, 3)))[1], rtol=2e-3)
    delta = found["variance/vanilla"] - found["variance/factored"]
    np.testing.assert_allclose(found["variance/delta"], delta, rtol=1e-6)
    squared, kept = (z**2).sum(axis=-1), np.asarray(samples.credit, float)
    b = np.asarray(total, float) - kept
    np.testing.assert_allclose(found["variance/quadratic"], squared.mean(0) * (b**2).mean(0), rtol=2e-3)
    np.testing.assert_allclose(found["variance/linear"], 2 * (squared * kept).mean(0) * b.mean(0), rtol=2e-3, atol=1e-4)
    covariance = [2 * np.cov(squared[:, i] * kept[:, i], b[:, i], ddof=0)[0, 1] for i in range(3)]
    np.testing.assert_allclose(found["variance/covariance"], covariance, rtol=2e-3, atol=1e-3)


def test_an_idle_factor_counts_nowhere():
    """Not in the normalisation, the entropy, the divergence, nor in the signal: its credits may be anything."""
    learner = Learner.of(chain(3, horizon=8), config=Config(**SMALL))
    rule, state = learner.update_rule, learner.init()
    _, seen = learner.environments.collect(
        state.environments, lambda k, obs: learner.act(state, k, obs), state.key, learner.config.n_steps
    )
    mask = jnp.broadcast_to(jnp.array([True, False, True]), (8, 8, 3))
    batch = fx.learning.Batch(
        seen.obs, None, seen.action, seen.psi, seen.next_obs, None, seen.terminated, seen.truncated, mask
    )
    samples = rule.samples(state.agent, batch, learner.network)
    other = samples._replace(credit=samples.credit.at[:, 1].set(1e6))
    for s in (samples, other):
        s = jnp.asarray(rule.normalised(s))[:, np.array([0, 2])]
        np.testing.assert_allclose(s.mean(), 0, atol=1e-5)
        np.testing.assert_allclose(s.std(ddof=1), 1, rtol=1e-4)
    a, b = (rule.loss(state.agent, s, state.agent.policy.spread, 0.0) for s in (samples, other))
    np.testing.assert_allclose(a[0], b[0], rtol=1e-5)
    assert a[1]["factor/entropy"][1] == 0
    np.testing.assert_allclose(a[1]["train/entropy_loss"], -2 * 0.5 * np.log(2 * np.pi * np.e), rtol=1e-5)
    assert rule.diagnose(state.agent, samples)["factor/gradient_snr"][1] == 0
