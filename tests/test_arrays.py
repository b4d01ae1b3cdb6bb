"""Constants from the host: the arrays that `jax.numpy` makes, without a compilation."""

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from factorax._arrays import on_device, ones, zeros, zeros_of


def same(ours, theirs):
    assert isinstance(ours, jax.Array)
    assert (ours.shape, ours.dtype, ours.weak_type) == (theirs.shape, theirs.dtype, theirs.weak_type)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("double", [False, True])
def test_host_constants_equal_those_of_jax(double):
    with jax.enable_x64(double):
        same(zeros((2, 3)), jnp.zeros((2, 3)))
        same(zeros(4, np.int32), jnp.zeros(4, jnp.int32))
        same(ones(()), jnp.ones(()))
        same(on_device([1.5, 2.5]), jnp.asarray([1.5, 2.5]))
        same(on_device([True, False], np.float32), jnp.asarray([True, False], jnp.float32))


def test_host_constants_compile_nothing():
    zeros(1)  # the first call compiles one program
    events = []
    jax.monitoring.register_event_duration_secs_listener(lambda event, seconds, **_: events.append(event))
    zeros((17, 3, 19)), ones((17, 3, 19)), on_device(np.arange(17 * 19.0))
    assert not [event for event in events if "compile" in event]


def test_host_constants_work_under_jit_and_vmap():
    shifted = lambda x: x + ones(3)  # noqa: E731
    np.testing.assert_array_equal(jax.jit(shifted)(np.zeros(3)), np.ones(3))
    np.testing.assert_array_equal(jax.jit(jax.vmap(lambda x: (x, zeros(3))))(np.ones(2))[1], np.zeros((2, 3)))


@pytest.mark.parametrize("make", [zeros, ones])
def test_eval_shape_allocates_nothing(make):
    assert jax.eval_shape(lambda: make((10**6, 10**7))).shape == (10**6, 10**7)


@pytest.mark.parametrize("optimiser", [optax.adam(0.1), optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1))])
def test_zeros_of_equals_the_state_of_adam(optimiser):
    parameters = {"kernel": np.ones((2, 3), np.float32), "bias": np.ones(3, np.float32), "none": None}
    ours, theirs = zeros_of(optimiser.init, parameters), optimiser.init(parameters)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        same(a, b)
