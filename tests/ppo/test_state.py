"""Running moments of observations and returns."""

import jax
import numpy as np

from factorax.ppo.state import RunningMoments


def test_running_moments_are_those_of_all_samples_so_far():
    x = np.random.default_rng(0).normal(3, 2, (5, 40, 2)).astype(np.float32)
    moments = RunningMoments.of((2,))
    updated = jax.jit(RunningMoments.updated)
    for part in x:
        moments = updated(moments, part.reshape(8, 5, 2))
    flat = x.reshape(-1, 2)
    np.testing.assert_allclose(moments.mean, flat.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(moments.variance, flat.var(axis=0), rtol=1e-3)
    normalise = jax.jit(lambda moments, rows: moments.normalised(rows, None))
    np.testing.assert_allclose(normalise(moments, flat), (flat - flat.mean(0)) / flat.std(0), rtol=1e-2, atol=1e-3)
    assert normalise(RunningMoments.of((1,)), np.float32([1e9])) == 10.0
    only_first = moments.normalised(flat, np.array([True, False]))  # choices are not numbers to be scaled
    np.testing.assert_array_equal(only_first[:, 1], flat[:, 1])
    assert not np.array_equal(only_first[:, 0], flat[:, 0])
