"""The categorical distribution against its definition, with components of different numbers of choices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from distributions import checks
from scipy import special, stats

from factorax.distributions import Categorical

CHOICES = checks.three(Categorical, low=0, high=4, choices=(2, 5, 3))


def probabilities(parameters):
    """Those of every component, from their definition."""
    return [special.softmax(x[:n]) for x, n in zip(parameters, CHOICES.choices, strict=True)]


def test_figures_are_those_of_the_probabilities():
    old, new = checks.parameters_of(CHOICES, 0, ()), checks.parameters_of(CHOICES, 1, ())
    log_std = checks.LOG_STD
    pairs = list(zip(probabilities(old), probabilities(new), strict=True))
    np.testing.assert_allclose(CHOICES.entropy(old, log_std), [stats.entropy(p) for p, _ in pairs])
    np.testing.assert_allclose(CHOICES.kl((old, log_std), (new, log_std)), [stats.entropy(p, q) for p, q in pairs])
    np.testing.assert_array_equal(CHOICES.mode(old), [p.argmax() for p, _ in pairs])


def test_probabilities_sum_to_one():
    parameters = checks.parameters_of(CHOICES, 0, ())
    everything = np.stack(np.meshgrid(*[np.arange(n) for n in CHOICES.choices], indexing="ij"), -1).reshape(-1, 3)
    log_prob = CHOICES.log_prob(np.broadcast_to(parameters, (30, 3, 5)), everything.astype(float), checks.LOG_STD)
    np.testing.assert_allclose(np.exp(log_prob.sum(axis=1)).sum(), 1)
    for i, p in enumerate(probabilities(parameters)):
        np.testing.assert_allclose(log_prob[:, i], np.log(p)[everything[:, i]])


@pytest.mark.parametrize("check", [checks.assert_numpy_is_jax, checks.assert_gradients, checks.assert_direction])
def test_in_numpy_and_jax(check):
    check(CHOICES)


def test_draws_have_the_probabilities():
    parameters, draws = checks.samples(CHOICES)
    for drawn in draws:
        for column, p in zip(drawn.T, probabilities(parameters), strict=True):
            checks.assert_frequencies(column, p)
    checks.assert_standardised(CHOICES)


def test_a_choice_that_a_component_does_not_have_is_never_drawn():
    tempting = np.zeros((2000, 3, 5), np.float32)
    tempting[:, 0, 2:] = 1e6
    noise = CHOICES.noise(np.random.default_rng(0), 2000, checks.LOG_STD)
    sampled = np.asarray(jax.jit(CHOICES.sample)(jax.random.key(0), tempting, None))
    for drawn in (sampled, CHOICES.choose(tempting, noise)):
        assert set(np.unique(drawn[:, 0])) == {0, 1}
        assert set(np.unique(drawn[:, 1])) == {0, 1, 2, 3, 4}
    action = np.float32([1.0, 4.0, 0.0])
    gradient = jax.jit(jax.grad(lambda x: CHOICES.log_prob(x, jnp.asarray(action), None).sum()))(tempting[0])
    third = 1 / 3
    want = [[-0.5, 0.5, 0, 0, 0], [-0.2, -0.2, -0.2, -0.2, 0.8], [2 * third, -third, -third, 0, 0]]
    np.testing.assert_allclose(gradient, want, atol=1e-6)
