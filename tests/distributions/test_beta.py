"""The Beta distribution against SciPy's, at its edges, and in training."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from distributions import checks
from scipy import integrate, special, stats

from factorax import InfluenceNetwork
from factorax.distributions import Beta
from factorax.distributions.beta import EDGE
from factorax.ppo import FactoredPPO
from factorax.problems.problem import Problem, Step

BETA = checks.three(Beta, low=-3, high=1)


def concentrations(parameters):
    return 1 + np.logaddexp(parameters, 0)


def scipys(parameters):
    a, b = np.moveaxis(concentrations(parameters), -1, 0)
    return stats.beta(a, b)


def test_figures_are_scipys():
    old, new, log_std = checks.parameters_of(BETA, 0, (), 3.0), checks.parameters_of(BETA, 1, (), 3.0), checks.LOG_STD
    u = np.array([0.01, 0.5, 0.97])
    np.testing.assert_allclose(BETA.log_prob(old, u, log_std), scipys(old).logpdf(u))
    np.testing.assert_allclose(BETA.entropy(old, log_std), scipys(old).entropy())
    a, b = concentrations(old).T
    np.testing.assert_allclose(BETA.mode(old), (a - 1) / (a + b - 2))
    for i in range(3):
        p, q = scipys(old[i]), scipys(new[i])
        want = integrate.quad(lambda x, p=p, q=q: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), 0, 1, epsabs=1e-10)[0]
        np.testing.assert_allclose(BETA.kl((old, log_std), (new, log_std))[i], want, rtol=1e-6)
    np.testing.assert_allclose(BETA.kl((old, log_std), (old, log_std)), 0, atol=1e-12)


@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_the_density_integrates_to_one(scale):
    parameters = checks.parameters_of(BETA, 0, (), scale)
    u = np.linspace(0, 1, 20_001)[1:-1]
    density = np.exp(BETA.log_prob(np.broadcast_to(parameters, (len(u), 3, 2)), np.stack([u] * 3, -1), checks.LOG_STD))
    np.testing.assert_allclose(integrate.trapezoid(density, u, axis=0), 1, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("check", [checks.assert_numpy_is_jax, checks.assert_gradients, checks.assert_direction])
def test_in_numpy_and_jax(check):
    check(BETA)


@pytest.mark.slow
def test_draws_follow_the_distribution_and_lie_in_the_box():
    parameters, draws = checks.samples(BETA)
    for drawn in draws:
        assert 0 < drawn.min() < drawn.max() < 1
        scaled = BETA.rescale(drawn)
        assert -3 < scaled.min() < -2.5
        assert 0.5 < scaled.max() < 1
        for i in range(3):
            checks.assert_follow((scaled[:, i] + 3) / 4, scipys(parameters[i]).cdf)
    checks.assert_standardised(BETA)


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [(-200.0, -200.0), (-200.0, 80.0), (80.0, -200.0), (300.0, 300.0), (-20.0, 8.0)])
def test_extreme_parameters_give_finite_figures_and_gradients(parameters):
    """Where α and β are large or 1, and where a uniform is 0 or nearly 1: actions stay inside the bounds."""
    x = np.full((4, 3, 2), parameters, np.float32)
    noise = np.zeros((4, 3, 2), np.float32)
    noise[..., 0] = np.float32([0, 1e-30, 0.5, 1 - 2**-24])[:, None]
    drawn = BETA.sample(jax.random.key(0), jnp.asarray(x), None)
    for action in (BETA.choose(x, noise), np.asarray(drawn), BETA.mode(x)):
        assert action.dtype == np.float32
        assert (action >= np.float32(EDGE)).all()
        assert (action <= np.float32(1 - EDGE)).all()
        for function in (
            lambda p, a=action: BETA.log_prob(p, jnp.asarray(a), None),
            lambda p: BETA.entropy(p, None),
            lambda p: BETA.kl((p, None), (jnp.zeros_like(p), None)),
            lambda p: BETA.kl((jnp.zeros_like(p), None), (p, None)),
        ):
            value, pull = jax.vjp(function, jnp.asarray(x))
            assert np.isfinite(value).all()
            assert np.isfinite(pull(jnp.ones_like(value))[0]).all()


def test_quantiles_in_32_bits_are_those_in_64():
    x = checks.parameters_of(BETA, 5, (500,), 2.0).astype(np.float32)
    noise = BETA.noise(np.random.default_rng(0), 500, checks.LOG_STD)
    a, b = np.moveaxis(concentrations(x.astype(float)), -1, 0)
    np.testing.assert_allclose(BETA.choose(x, noise), special.betaincinv(a, b, noise[..., 0].astype(float)), rtol=2e-4)


def test_very_wide_bounds_do_not_overflow():
    wide = checks.three(Beta, low=-3e38, high=3e38)
    np.testing.assert_allclose(wide.rescale(np.full(3, 0.5, np.float32)), 0)


# ---- training -------------------------------------------------------------------------------------------------

BEST = np.array([0.6, -0.3], np.float32)
BOX, OBS = gym.spaces.Box(-1.0, 1.0, (2,), np.float32), gym.spaces.Box(-1.0, 1.0, (1,), np.float32)


def bandit():
    """ψᵢ = −(aᵢ − bestᵢ)², one step."""

    def reset(key):
        return jnp.zeros(()), jnp.zeros(1)

    def step(key, state, action):
        stop = jnp.array(True)
        return Step(state, jnp.zeros(1), -((action - BEST) ** 2), stop, ~stop)

    return Problem(
        name="bandit",
        reset=reset,
        step=step,
        observation_space=OBS,
        action_space=BOX,
        network=InfluenceNetwork.identity(2),
        weights=np.ones(2),
    )


class HostBandit(gym.Env):
    """The same as a Gymnasium environment."""

    observation_space, action_space = OBS, BOX
    network, weights = InfluenceNetwork.identity(2), np.ones(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        psi = -((action - BEST) ** 2)
        return np.zeros(1, np.float32), float(psi.sum()), True, False, {"vector_reward": psi}


@pytest.mark.slow
@pytest.mark.parametrize("make", [bandit, lambda: HostBandit], ids=["JAX problem", "host environment"])
def test_training_with_beta_improves(make):
    """From the uniform-like start, whose mean reward is about −0.9, to near 0."""
    settings = {"n_envs": 8, "n_steps": 32, "batch_size": 256, "n_epochs": 8, "hidden": (8,), "learning_rate": 3e-2}
    model = FactoredPPO(make(), distribution="beta", rollouts="inline", gamma=0.0, **settings)
    assert model.spec.components.kinds == ("beta", "beta")
    before = model.evaluate(50, deterministic=False)["return"]
    model.learn(40 * 256, progress_bar=False)
    after = model.evaluate(50, deterministic=False)["return"]
    assert before < -0.5
    assert after > -0.1
    action, _ = model.predict(np.zeros(1, np.float32), deterministic=True)
    np.testing.assert_allclose(action, BEST, atol=0.15)
