"""x W + b: values and derivatives are those of the plain expression."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factorax.networks.affine import affine, product


def close(ours, theirs):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("columns", [1, 2, 4, 5])
@pytest.mark.parametrize("lead", [(), (6,), (3, 2), (513,)])
def test_values_and_derivatives_in_both_modes_are_those_of_matmul(lead, columns):
    rng = np.random.default_rng(0)
    shapes = (*lead, 3), (3, columns), (columns,)
    arguments, tangents = ([rng.normal(size=s).astype(np.float32) for s in shapes] for _ in range(2))

    @jax.jit
    def everything(arguments, tangents):
        """The value, the gradient of the sum of sines, their derivatives along the tangents, and the product."""
        gradient = jax.grad(lambda *a: jnp.sin(affine(*a)).sum(), argnums=(0, 1, 2))
        return *(jax.jvp(f, arguments, tangents) for f in (affine, gradient)), product(*arguments[:2])

    (x, kernel, bias), (dx, d_kernel, d_bias) = arguments, tangents
    y, dy = x @ kernel + bias, dx @ kernel + x @ d_kernel + d_bias
    g, dg = np.cos(y), -np.sin(y) * dy

    def rows(a):
        return a.reshape(-1, a.shape[-1])

    gradient = g @ kernel.T, rows(x).T @ rows(g), rows(g).sum(axis=0)
    along = dg @ kernel.T + g @ d_kernel.T, rows(dx).T @ rows(g) + rows(x).T @ rows(dg), rows(dg).sum(axis=0)
    close(everything(arguments, tangents), ((y, dy), (gradient, along), x @ kernel))


def test_networks_side_by_side_have_the_gradients_of_each():
    rng = np.random.default_rng(0)
    x, kernels, biases = (rng.normal(size=s).astype(np.float32) for s in ((6, 3), (2, 3, 5), (2, 5)))
    gradient = jax.vmap(jax.grad(lambda k, b: jnp.sin(affine(x, k, b)).sum(), argnums=(0, 1)))
    g = np.cos(x @ kernels + biases[:, None])
    close(jax.jit(gradient)(kernels, biases), (x.T @ g, g.sum(axis=1)))
