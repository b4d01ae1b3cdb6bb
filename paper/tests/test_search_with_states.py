"""The search bandit with states: targets by hand, the network that it claims, and its scale."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factorax_paper.search_with_states import contextual_search, draw_targets

import factorax as fx


@pytest.mark.parametrize("norm", [1, 2])
def test_targets_and_shapes(norm):
    problem = contextual_search(3, features=2, norm=norm, seed=5)
    fx.check_problem(problem, steps=10)
    state, obs = jax.jit(problem.reset)(jax.random.key(0))
    np.testing.assert_array_equal(state, obs)
    action = np.float32([1.0, -2.0, 0.5])
    step = jax.jit(problem.step)(jax.random.key(1), state, action)
    offset = np.asarray(action) - draw_targets(3, 2, 5) @ np.asarray(state)
    want = -np.abs(offset) / 3 if norm == 1 else [-np.linalg.norm(offset) / 3]
    np.testing.assert_allclose(step.psi, want, rtol=1e-5)
    assert step.terminated
    assert jax.eval_shape(problem.local, jnp.zeros((5, 2))).shape == (5, 3, 2)


@pytest.mark.parametrize("norm", [1, 2])
def test_the_network_is_exactly_where_targets_move(norm):
    problem = contextual_search(4, norm=norm)
    state, _ = jax.jit(problem.reset)(jax.random.key(0))
    slopes = jax.jit(jax.jacobian(lambda a: problem.step(jax.random.key(1), state, a).psi))(np.arange(4, dtype=float))
    np.testing.assert_array_equal((np.abs(slopes) > 0).T, problem.network.to_dense())


def test_what_is_to_be_found_varies_as_the_centres_do():
    """π*ᵢ(s) has the variance of a uniform centre on (−5, 5), 25/3, on average over i."""
    for features in (1, 4, 16):
        matrix = draw_targets(20_000, features, 1)
        np.testing.assert_allclose((matrix**2).sum(axis=1).mean(), 25 / 3, rtol=0.03)
