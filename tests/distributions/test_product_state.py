"""A log σ that depends on the state, and one for all components."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from scipy import stats

from factorax.distributions import Clip
from factorax.spaces import ActionSpace

SPACE = spaces.Tuple([spaces.Box(-np.inf, np.inf, (2,)), spaces.Discrete(3)])


def drawn(seed=0):
    space = ActionSpace.of(SPACE, Clip("state"))
    parameters = np.float32(0.5 * np.random.default_rng(seed).normal(size=(4, 3, space.width)))
    return space, parameters, space.spread(0.3), jax.random.key(seed)


@pytest.mark.slow
def test_it_is_a_normal_distribution_with_the_sigma_of_its_state():
    space, parameters, spread, key = drawn()
    assert space.width == 4
    action = space.sample(key, parameters, spread)
    mean, std = np.asarray(parameters[:, :2, 0], float), np.exp(0.3 + np.asarray(parameters[:, :2, -1], float))
    np.testing.assert_allclose(
        space.log_prob(parameters, spread, action)[:, :2], stats.norm.logpdf(action[:, :2], mean, std), rtol=1e-5
    )
    np.testing.assert_allclose(space.entropy(parameters, spread)[:, :2], stats.norm.entropy(mean, std), rtol=1e-5)
    _, other, _, _ = drawn(1)
    far, wide = np.asarray(other[:, :2, 0], float), np.exp(0.3 + np.asarray(other[:, :2, -1], float))
    want = np.log(wide / std) + (std**2 + (mean - far) ** 2) / (2 * wide**2) - 0.5
    np.testing.assert_allclose(space.kl((parameters, spread), (other, spread))[:, :2], want, rtol=1e-4, atol=1e-6)
    plain = ActionSpace.of(SPACE)
    np.testing.assert_allclose(  # of the choice, which has no σ
        space.log_prob(parameters, spread, action)[:, 2],
        plain.log_prob(parameters[..., :3], plain.spread(0.0), action)[:, 2],
        rtol=1e-6,
    )


def test_samples_have_it_in_jax_and_numpy():
    """40,000 samples: their standard deviation is within 2 % of σ with 99.99 % confidence."""
    space, parameters, spread, key = drawn()
    one = np.broadcast_to(parameters[:1], (40_000, 3, 4))
    std = np.exp(0.3 + parameters[0, :2, -1])
    sampled = np.asarray(jax.jit(space.sample)(key, one, spread))
    np.testing.assert_allclose(sampled[:, :2].std(axis=0), std, rtol=0.02)
    noise = space.noise(np.random.default_rng(0), 40_000, np.asarray(spread.log_std))
    chosen = space.choose(one, noise)
    np.testing.assert_allclose(chosen[:, :2].std(axis=0), std, rtol=0.02)
    np.testing.assert_allclose(chosen[:, :2].mean(axis=0), parameters[0, :2, 0], atol=0.04)


def test_one_sigma_stands_for_all():
    space = ActionSpace.of(SPACE)
    parameters, action = jnp.zeros((1, 3, 3)), jnp.zeros((1, 3))
    one, each = ActionSpace.of(SPACE, Clip("shared", 0.7)).spread(), space.spread(0.7)
    assert one.log_std.shape == (1,)
    log_prob = jax.jit(lambda spread: space.log_prob(parameters, spread, action))
    np.testing.assert_array_equal(log_prob(one), log_prob(each))
    noise = [space.noise(np.random.default_rng(0), 3, np.asarray(spread.log_std)) for spread in (one, each)]
    np.testing.assert_array_equal(*noise)
    gradient = jax.jit(jax.grad(lambda s: space.log_prob(parameters, one._replace(log_std=s), action).sum()))
    assert np.asarray(gradient(one.log_std)) == pytest.approx(-2.0)  # both Gaussians
