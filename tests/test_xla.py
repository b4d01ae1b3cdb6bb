"""Results that are computed apart: the same numbers, and a condition that `jax.vmap` leaves one."""

import jax
import jax.numpy as jnp
import numpy as np

from factorax._xla import separately


def apart(x, time):
    return separately(lambda: {"square": x**2}, {"square": x}, time)


def test_separately_returns_the_value_of_the_function():
    x = jnp.arange(4.0)
    np.testing.assert_array_equal(jax.jit(apart)(x, jnp.int32(0))["square"], x**2)


def test_condition_stays_scalar_under_vmap():
    """`jax.vmap` of a condition by element would compute both branches, and choose."""
    x, time = jnp.ones((2, 3, 4)), jnp.zeros((2, 3), jnp.int32)
    vectorised = jax.vmap(jax.vmap(apart))
    np.testing.assert_array_equal(jax.jit(vectorised)(2 * x, time)["square"], 4 * x)
    condition = next(each for each in jax.make_jaxpr(vectorised)(x, time).eqns if each.primitive.name == "cond")
    assert condition.invars[0].aval.shape == ()
