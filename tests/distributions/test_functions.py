import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from factorax.distributions.functions import MAX_UNROLLED_AXIS, at_choice, log_softmax, sum_last


@pytest.mark.parametrize("width", [1, 2, MAX_UNROLLED_AXIS, MAX_UNROLLED_AXIS + 1])
def test_few_and_many_choices_agree_with_numpy(width: int):
    x = np.random.default_rng(0).normal(scale=3, size=(5, 4, width)).astype(np.float32)
    choice = np.random.default_rng(1).integers(width, size=(5, 4)).astype(np.float32)
    expected = special.log_softmax(x.astype(float), axis=-1)

    def figures(x, choice, xp):
        return log_softmax(x, xp), sum_last(x), at_choice(x, choice, xp)

    for logs, total, chosen in (figures(x, choice, np), jax.jit(figures, static_argnums=2)(x, choice, jnp)):
        np.testing.assert_allclose(logs, expected, atol=1e-5)
        np.testing.assert_allclose(total, x.sum(axis=-1), atol=1e-5)
        np.testing.assert_array_equal(chosen, at_choice(x, choice, np))


def test_log_softmax_of_few_choices_neither_overflows_nor_loses_its_gradient():
    x = np.float32([1e4, -1e9, 1e4])
    np.testing.assert_allclose(np.exp(jax.jit(lambda x: log_softmax(x, jnp))(x)), [0.5, 0, 0.5])
    gradient = jax.jit(jax.grad(lambda x: log_softmax(x, jnp)[0]))(np.float32([0.3, -0.2]))
    p = special.softmax([0.3, -0.2])
    np.testing.assert_allclose(gradient, [1 - p[0], -p[1]], rtol=1e-5)
