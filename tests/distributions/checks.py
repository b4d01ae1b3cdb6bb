"""What every kind of distribution has to satisfy, for tests of each of them."""

import jax
import jax.numpy as jnp
import numpy as np

LOG_STD = np.array([-0.4, 0.2, 0.5])


def three(kind, *, low=-np.inf, high=np.inf, choices=(0, 0, 0)):
    """Three components of a kind."""
    bounds = np.full(3, low, np.float32), np.full(3, high, np.float32)
    return kind(low=bounds[0], high=bounds[1], choices=np.array(choices))


def parameters_of(distribution, seed, batch=(5,), scale=1.5):
    """Random parameters, float64."""
    return scale * np.random.default_rng(seed).normal(size=(*batch, len(distribution), distribution.width))


def assert_numpy_is_jax(distribution):
    """Figures in NumPy, float64, are those in JAX, float32; raw actions are sampled, as those in use are."""
    old, new = parameters_of(distribution, 0), parameters_of(distribution, 1)
    action = np.asarray(jax.jit(distribution.sample)(jax.random.key(0), old, LOG_STD), float)
    as_jax = [x.astype(np.float32) for x in (old, new, action, LOG_STD, LOG_STD - 0.1)]

    def figures(old, new, action, first, second):
        return (
            distribution.log_prob(old, action, first),
            distribution.entropy(old, first),
            distribution.kl((old, first), (new, second)),
            distribution.mode(old),
        )

    ours, theirs = figures(old, new, action, LOG_STD, LOG_STD - 0.1), jax.jit(figures)(*as_jax)
    for x, y in zip(ours, theirs, strict=True):
        assert isinstance(x, np.ndarray)
        assert x.shape == y.shape == (5, 3)
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


def assert_gradients(distribution, step=1e-5):
    """Gradients of all figures in JAX are finite, and the central differences of the figures in NumPy."""
    old, new = parameters_of(distribution, 2, ()), parameters_of(distribution, 3, ())
    action = np.asarray(jax.jit(distribution.sample)(jax.random.key(1), old, LOG_STD), float)
    functions = [
        lambda x, s: distribution.log_prob(x, action if isinstance(x, np.ndarray) else jnp.asarray(action), s).sum(),
        lambda x, s: distribution.entropy(x, s).sum(),
        lambda x, s: distribution.kl((x, s), (new, LOG_STD)).sum(),
        lambda x, s: distribution.kl((new, LOG_STD), (x, s)).sum(),
    ]
    gradients = jax.jit(lambda x, s: [jax.grad(function, argnums=(0, 1))(x, s) for function in functions])
    for function, got in zip(functions, gradients(old.astype(np.float32), LOG_STD.astype(np.float32)), strict=True):
        for which, gradient in enumerate(got):
            assert np.isfinite(gradient).all()
            start = (old, LOG_STD)[which]
            want = np.zeros(start.size)
            for i in range(start.size):
                ends = []
                for sign in (1, -1):
                    moved = start.ravel().copy()
                    moved[i] += sign * step
                    point = [old, LOG_STD]
                    point[which] = moved.reshape(start.shape)
                    ends.append(function(*point))
                want[i] = (ends[0] - ends[1]) / (2 * step)
            np.testing.assert_allclose(np.ravel(gradient), want, rtol=2e-3, atol=2e-4)


def samples(distribution, count=20_000, seed=4):
    """Parameters ``(k, width)``, and raw actions ``(N, k)`` drawn with JAX and with NumPy."""
    parameters = parameters_of(distribution, seed, (), 0.8).astype(np.float32)
    many = np.broadcast_to(parameters, (count, *parameters.shape))
    log_std = LOG_STD.astype(np.float32)
    drawn = jax.jit(distribution.sample)(jax.random.key(seed), many, log_std)
    noise = distribution.noise(np.random.default_rng(seed), count, log_std)
    assert noise.shape == many.shape
    assert noise.dtype == np.float32
    return parameters.astype(float), [np.asarray(drawn, float), np.asarray(distribution.choose(many, noise), float)]


def assert_follow(drawn, cdf):
    """The largest distance of the empirical distribution function of N draws from F is below what it exceeds with
    probability 1e-6, √(log(2/1e-6) / 2N) (Dvoretzky, Kiefer, Wolfowitz; Massart)."""
    drawn = np.sort(drawn)
    values, N = cdf(drawn), len(drawn)
    distance = max(np.abs(values - np.arange(N) / N).max(), np.abs(values - np.arange(1, N + 1) / N).max())
    assert distance < np.sqrt(np.log(2e6) / (2 * N))


def assert_frequencies(drawn, probabilities):
    """Frequencies of choices within five standard errors."""
    N = len(drawn)
    for choice, p in enumerate(probabilities):
        assert abs((drawn == choice).mean() - p) < 5 * np.sqrt(p * (1 - p) / N)


def assert_standardised(distribution, count=20_000):
    """Scores of mean 0 and variance 1, uniforms that are uniform; five standard errors."""
    parameters, (_, drawn) = samples(distribution, count, seed=6)
    between = np.random.default_rng(7).random(drawn.shape)
    many = np.broadcast_to(parameters, (count, *parameters.shape))
    scores, uniforms = distribution.standardised(many, drawn, between, LOG_STD)
    assert np.abs(scores.mean(axis=0)).max() < 5 / np.sqrt(count)
    assert np.abs((scores**2).mean(axis=0) - 1).max() < 5 * (scores**2).std(axis=0).max() / np.sqrt(count)
    for column in uniforms.T:
        assert_follow(column, lambda u: np.clip(u, 0, 1))


def assert_direction(distribution):
    """A step along the direction makes larger actions more probable: the mean of many draws rises."""
    parameters = parameters_of(distribution, 8, (), 0.5).astype(np.float32)
    noise = distribution.noise(np.random.default_rng(0), 2000, LOG_STD)
    means = [distribution.choose(parameters + s * distribution.direction, noise).mean(axis=0) for s in (-0.5, 0.5)]
    assert (means[1] > means[0]).all()
