"""A full covariance within each factor, against SciPy's normal distribution."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from factorax.distributions.covariance import Spread, blocks_of, colouring, mix, whitening
from factorax.spaces import ActionSpace

FACTORS = np.array([0, 1, 0, 0, 1, 2])


def correlated(seed):
    """Three factors of 3, 2 and 1 Gaussians; a mean and a spread of them."""
    space = ActionSpace.of(gym.spaces.Box(-np.inf, np.inf, (6,))).with_covariance(FACTORS)
    rng, spread = np.random.default_rng(seed), space.spread(0.0)
    log_std, mixing, mean = (rng.normal(size=s).astype(np.float32) for s in ((6,), spread.mixing.shape, (6, 1)))
    return space, mean, spread._replace(log_std=0.3 * log_std, mixing=mixing)


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
    a = np.linspace(-1, 2, 6, dtype=np.float32)

    @jax.jit
    def figures(mean, spread, other, new):
        return (
            space.log_prob(mean, spread, a),
            space.entropy(mean, spread),
            space.kl((mean, spread), (other, new)),
        )

    log_prob, entropy, kl = map(by_factor, figures(mean, spread, other, new))
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
    drawn = jax.jit(space.sample)(jax.random.key(3), np.broadcast_to(mean, (40_000, 6, 1)), spread)
    want = covariance(space, spread)
    error = np.sqrt((want**2 + np.outer(np.diag(want), np.diag(want))) / 40_000)
    assert (np.abs(np.cov(np.asarray(drawn, float).T) - want) / error).max() < 4.5
    np.testing.assert_allclose(
        np.asarray(drawn).mean(axis=0), mean[:, 0], atol=4.5 * np.sqrt(np.diag(want).max() / 4e4)
    )


def test_only_gaussian_components_are_correlated():
    has_spread = np.array([True, False, True, True, False, True])
    np.testing.assert_array_equal(blocks_of(has_spread, FACTORS), [[0, 2, 3]])
    assert blocks_of(has_spread, np.arange(6)) is None


def test_numpy_mixes_as_jax_does():
    space, _, spread = correlated(4)
    x, mixing = np.random.default_rng(0).normal(size=(7, 6)).astype(np.float32), spread.mixing
    for function in (whitening, colouring):
        matrices = function(mixing)
        assert isinstance(matrices, np.ndarray)
        by_jax, want = jax.jit(lambda m, x, f=function: (f(m), mix(space.blocks, f(m), x)))(mixing, x)
        np.testing.assert_allclose(matrices, by_jax, atol=1e-5)
        np.testing.assert_allclose(mix(space.blocks, matrices, x), want, atol=1e-4)
    back = mix(space.blocks, whitening(mixing), mix(space.blocks, colouring(mixing), x))
    np.testing.assert_allclose(back, x, atol=1e-4)


def test_numpy_has_the_log_probabilities_of_jax():
    space, mean, spread = correlated(5)
    action, plain = np.linspace(-1, 2, 6).astype(np.float32), Spread(*map(np.asarray, spread))
    got = space.log_prob(mean, plain, action)
    assert isinstance(got, np.ndarray)
    np.testing.assert_allclose(got, jax.jit(space.log_prob)(mean, spread, action), rtol=1e-4)


@pytest.mark.slow
def test_gaussian_and_squashed_components_of_one_factor_are_correlated():
    """The density is that of the Gaussians, less the slope of the tanh."""
    box = gym.spaces.Box(np.float32([-1, -np.inf, -1]), np.float32([1, np.inf, 1]))
    spaces = [ActionSpace.of(box, bounded).with_covariance(np.zeros(3, int)) for bounded in ("clip", "tanh")]
    assert spaces[1].kinds == ("squashed", "gaussian", "squashed")
    mixing = jnp.array([[[0, 0, 0], [0.5, 0, 0], [-0.3, 0.8, 0]]], jnp.float32)
    spread = spaces[0].spread(-0.2)._replace(mixing=mixing)
    drawn = [space.sample(jax.random.key(0), jnp.zeros((40_000, 3, 1)), spread) for space in spaces]
    error = 5 * np.sqrt(2 * np.cov(np.asarray(drawn[0]).T).max() ** 2 / 40_000)
    np.testing.assert_allclose(*(np.cov(np.asarray(x, float).T) for x in drawn), atol=2 * error)
    action = jnp.array([0.3, -1.0, 0.7])
    plain, squashed = (space.log_prob(jnp.zeros((3, 1)), spread, action) for space in spaces)
    slope = jnp.where(jnp.array([True, False, True]), jnp.log(1 - jnp.tanh(action) ** 2), 0)
    np.testing.assert_allclose(squashed, plain - slope, atol=1e-5)
