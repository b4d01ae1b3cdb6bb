"""Sums of integers are equal to sums of numbers up to rounding, and bit-identical for any order of addition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factorax_traffic.repeatable_sums import sums_by_index

N, SIZE = 400, 23


def drawn(seed):
    """Return one number per index, speeds, and ones, with an index for each, some of them to be dropped."""
    rng = np.random.default_rng(seed)
    index = rng.integers(0, SIZE + 2, N)
    first = np.zeros(N, bool)
    first[np.unique(index, return_index=True)[1]] = True
    return [np.where(first, rng.normal(0, 100, N), 0.0), rng.uniform(0, 30, N), np.ones(N)], index


@pytest.mark.parametrize("seed", range(3))
def test_sums_in_any_order(seed):
    values, index = drawn(seed)
    order = np.random.default_rng(seed + 10).permutation(N)
    summed = jax.jit(lambda x, i: sums_by_index(x, i, SIZE, single=1, as_integers=True))
    ours = summed([jnp.float32(x) for x in values], index)
    again = summed([jnp.float32(x[order]) for x in values], index[order])
    want = [np.bincount(index, np.float32(x).astype(float), SIZE + 2)[:SIZE] for x in values]
    for got, other, exact in zip(ours, again, want, strict=True):
        assert got.dtype == jnp.float32
        np.testing.assert_array_equal(got, other)
        # rounded to 2⁻²⁰ for each number, and once to single precision
        np.testing.assert_allclose(got, exact, rtol=6e-8, atol=N * 2.0**-21)
    np.testing.assert_array_equal(ours[0], np.float32(want[0]))
    np.testing.assert_array_equal(ours[2], want[2])


def test_sums_of_numbers_depend_on_the_order():
    """The reason for integers."""
    x, index = jnp.array([2.0**24, 1.0, 1.0], jnp.float32), jnp.zeros(3, int)
    one, other = (sums_by_index([x[jnp.array(o)]], index, 1, as_integers=False)[0] for o in ([0, 1, 2], [1, 2, 0]))
    assert one != other
