"""Orders of samples: every sample once, and uniformly."""

from functools import partial

import jax
import numpy as np
import pytest
from scipy import stats

from factorax.ppo.minibatches import sequence_order, shuffled


@pytest.mark.parametrize("size", [1, 2, 6, 64, 1000, 70_000])
def test_a_shuffle_has_every_number_once(size):
    order = jax.jit(shuffled, static_argnums=1)(jax.random.key(0), size)
    np.testing.assert_array_equal(np.sort(order), np.arange(size))


def test_a_shuffle_is_uniform():
    """Each of the 24 orders of four numbers in 24,000 shuffles, by χ²; passed with a chance of 99.9 %."""
    draw = jax.jit(lambda key: jax.vmap(lambda key: shuffled(key, 4))(jax.random.split(key, 24_000)))
    orders = draw(jax.random.key(1))
    counts = np.unique(np.asarray(orders), axis=0, return_counts=True)[1]
    assert len(counts) == 24
    assert ((counts - 1000) ** 2 / 1000).sum() < stats.chi2.ppf(0.999, 23)


def test_sequences_are_consecutive_steps_of_one_environment():
    n_envs, n_steps, length, batch_size = 3, 8, 4, 12
    sizes = {"n_envs": n_envs, "n_steps": n_steps, "length": length, "batch_size": batch_size}
    order = np.asarray(jax.jit(partial(sequence_order, **sizes))(jax.random.key(0)))
    np.testing.assert_array_equal(np.sort(order.ravel()), np.arange(n_envs * n_steps))
    step, environment = np.divmod(order.reshape(-1, length, batch_size // length), n_envs)
    assert (environment == environment[:, :1]).all()
    assert (step[:, :1] % length == 0).all()
    np.testing.assert_array_equal(step - step[:, :1], np.broadcast_to(np.arange(length)[:, None], step.shape))
