"""The lane simulator as a problem: sizes, horizons, and rewards that are NaN where it is no longer valid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factorax_traffic import lanes

import factorax as fx


@pytest.mark.slow
def test_the_problem_passes_its_check_and_has_the_right_sizes():
    for size, length in (((3, 3), 339), ((2, 6), 452)):
        problem = lanes(*size)
        assert problem.observation_space.shape == (length,)
        _, obs = jax.eval_shape(problem.reset, jax.random.key(0))
        assert obs.shape == (length,)
        assert jax.eval_shape(problem.local, obs).shape == (size[0] * size[1], 42)
    fx.check_problem(lanes(1, 2, slots=10), steps=30)
    fx.check_problem(lanes(2, 1, slots=10, action="gaussian", kind="lights", norm="local"), steps=30)


def test_an_episode_is_truncated_at_its_horizon():
    problem = lanes(1, 1, horizon=3)
    step = jax.jit(problem.step)
    state, _ = jax.jit(problem.reset)(jax.random.key(0))
    ends = []
    for _ in range(3):
        out = step(jax.random.key(0), state, jnp.zeros(1, jnp.int32))
        state = out.state
        ends.append((bool(out.terminated), bool(out.truncated)))
    assert ends == [(False, False), (False, False), (False, True)]


@pytest.mark.slow
def test_a_full_route_is_said():
    problem = lanes(1, 1, slots=5)
    state, _ = jax.jit(problem.reset)(jax.random.key(0))
    step = jax.jit(problem.step)
    psi = []
    for _ in range(120):  # east–west is never green
        out = step(jax.random.key(0), state, jnp.zeros(1, jnp.int32))
        state = out.state
        psi.append(np.asarray(out.psi))
    bad = np.isnan(psi).any(axis=1)
    assert bad.any()
    assert int(state.cars.max()) == 5
    assert not bad[:40].any()


@pytest.mark.slow
def test_a_large_grid_has_traffic_at_every_light():
    problem = lanes(30, 20, initial="everywhere")

    @jax.jit
    def run(key):
        state, _ = problem.reset(key)
        out = problem.step(key, state, jnp.zeros(600, jnp.int32))
        return state.cars.sum(), problem.local(out.obs), out.psi

    cars, local, psi = run(jax.random.key(0))
    assert int(cars) == 2 * (20 * 30 + 30 * 20)
    assert (np.asarray(local)[:, 16:24].reshape(600, 4, 2)[..., 0] > 0).all()  # a car on each approach
    assert np.isfinite(psi).all()
