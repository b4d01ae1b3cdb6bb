"""Baselines against closed forms, and the O(n) path against the general one."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factorax.gradients import leave_one_out, running_value, separable_baseline, substituted_baseline

RNG = np.random.default_rng(0)


def test_leave_one_out_is_the_mean_of_the_others():
    psi = RNG.normal(size=(5, 3))
    want = [np.delete(psi, s, axis=0).mean(axis=0) for s in range(5)]
    np.testing.assert_allclose(leave_one_out(psi), want, atol=1e-12)


def test_running_value_converges_at_its_rate():
    value, step = np.zeros(2), jax.jit(partial(running_value, rate=0.1))
    for _ in range(10):
        value = step(value, np.array([1.0, -2.0]))
    np.testing.assert_allclose(value, (1 - 0.9**10) * np.array([1.0, -2.0]), atol=1e-12)
    np.testing.assert_allclose(running_value(0.0, jnp.array([1.0, 3.0]), rate=0.5), 1.0)


@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
@pytest.mark.parametrize("samples", [None, 5])
def test_separable_and_general_paths_agree(batch, samples):
    a = RNG.normal(size=(*batch, 6))
    replacement = RNG.normal(size=(6,) if samples is None else (samples, *batch, 6))
    w = RNG.normal(size=6)
    terms = lambda x: -jnp.abs(x - w) / 6  # noqa: E731 (the search bandit's b(a) = −‖a − w‖₁ / n)
    both = jax.jit(
        lambda a, r: (separable_baseline(terms, a, r), substituted_baseline(lambda x: terms(x).sum(axis=-1), a, r))
    )
    fast, slow = both(a, replacement)
    assert fast.shape == (*batch, 6)
    np.testing.assert_allclose(fast, slow, atol=1e-12)


def test_the_baseline_of_a_factor_does_not_depend_on_its_own_action():
    a, replacement = RNG.normal(size=5), RNG.normal(size=5)
    coupled = lambda x: jnp.sin(x.sum(axis=-1)) * jnp.prod(x, axis=-1)  # noqa: E731
    own = jax.jit(jax.jacobian(lambda x: substituted_baseline(coupled, x, replacement)))(a)
    np.testing.assert_allclose(np.diag(own), 0, atol=1e-14)
    assert np.abs(own).max() > 1e-3
    own = jax.jit(jax.jacobian(lambda x: separable_baseline(jnp.sin, x, replacement)))(a)
    np.testing.assert_allclose(np.diag(own), 0, atol=1e-14)


def test_bad_shapes_are_named():
    for shape in [(1, 3), (3,), (2, 3, 4)]:
        with pytest.raises(ValueError, match=r"want \(batch, n_targets\), with at least two samples"):
            leave_one_out(np.ones(shape))
    with pytest.raises(ValueError, match=r"terms: got shape \(\), want \(3,\)"):
        separable_baseline(jnp.sum, np.ones(3), np.ones(3))
    with pytest.raises(ValueError, match=r"psi: got shape \(4, 2\), want \(..., 3\)"):
        running_value(np.ones(3), np.ones((4, 2)))
