"""x W + b: values and derivatives are those of the plain expression."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factorax.learning.modules.affine import affine, product


def plain(x, kernel, bias):
    return x @ kernel + bias


def close(ours, theirs):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("columns", [1, 2, 4, 5])
@pytest.mark.parametrize("lead", [(), (6,), (3, 2), (513,)])
def test_values_and_derivatives_in_both_modes_are_those_of_matmul(lead, columns):
    rng = np.random.default_rng(0)
    shapes = (*lead, 3), (3, columns), (columns,)
    arguments, tangents = ([rng.normal(size=s).astype(np.float32) for s in shapes] for _ in range(2))

    def derivatives(f, arguments, tangents):
        """Return the value, the gradient, and both with their derivatives along the tangents."""
        gradient = jax.grad(lambda *a: jnp.sin(f(*a)).sum(), argnums=(0, 1, 2))
        along = [jax.jvp(g, arguments, tangents) for g in (f, gradient)]
        return f(*arguments), gradient(*arguments), along

    @jax.jit
    def everything(arguments, tangents):
        return *(derivatives(f, arguments, tangents) for f in (affine, plain)), product(*arguments[:2])

    ours, theirs, products = everything(arguments, tangents)
    close(ours, theirs)
    close(products, arguments[0] @ arguments[1])


def test_networks_side_by_side_have_the_gradients_of_each():
    rng = np.random.default_rng(0)
    x, kernels, biases = (jnp.asarray(rng.normal(size=s), jnp.float32) for s in ((6, 3), (2, 3, 5), (2, 5)))
    gradient = lambda f: jax.vmap(jax.grad(lambda k, b: jnp.sin(f(x, k, b)).sum(), argnums=(0, 1)))  # noqa: E731
    close(*jax.jit(lambda *arguments: [gradient(f)(*arguments) for f in (affine, plain)])(kernels, biases))
