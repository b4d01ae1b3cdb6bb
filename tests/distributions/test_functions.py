import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from factorax.distributions.functions import FEW, at_choice, log_softmax, sum_last


@pytest.mark.parametrize("width", [1, 2, FEW, FEW + 1])
def test_few_and_many_choices_agree_with_numpy(width: int):
    x = np.random.default_rng(0).normal(scale=3, size=(5, 4, width)).astype(np.float32)
    choice = np.random.default_rng(1).integers(width, size=(5, 4)).astype(np.float32)
    expected = special.log_softmax(x.astype(float), axis=-1)
    for xp, array in ((np, x), (jnp, jnp.asarray(x))):
        np.testing.assert_allclose(log_softmax(array, xp), expected, atol=1e-5)
        np.testing.assert_allclose(sum_last(array), x.sum(axis=-1), atol=1e-5)
        np.testing.assert_array_equal(at_choice(array, xp.asarray(choice), xp), at_choice(x, choice, np))


def test_log_softmax_of_few_choices_neither_overflows_nor_loses_its_gradient():
    x = jnp.array([1e4, -1e9, 1e4])
    np.testing.assert_allclose(jnp.exp(log_softmax(x, jnp)), [0.5, 0, 0.5])
    gradient = jax.grad(lambda x: log_softmax(x, jnp)[0])(jnp.array([0.3, -0.2]))
    p = special.softmax([0.3, -0.2])
    np.testing.assert_allclose(gradient, [1 - p[0], -p[1]], rtol=1e-5)
