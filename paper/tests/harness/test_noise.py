"""The noise: the published generator bit for bit, normal to the tails, and the same numbers in any batch.

Bounds on random quantities are stated with the chance that a right generator would miss them for a key drawn at random;
the keys are fixed, so that the outcome is.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factorax_paper.harness.noise import box_muller, gaussian_pair, threefry
from jax.extend.random import threefry_2x32
from scipy import stats

TOP = 2**32 - 1
bits, normals = jax.jit(threefry), jax.jit(box_muller)


def words(*values):
    return jnp.array(values, jnp.uint32)


@functools.partial(jax.jit, static_argnames="n")
def noise(keys, pairs, n):
    """Of every key, step and coordinate: ``(keys, 2 · pairs, n)``."""
    both = jax.vmap(lambda key: jax.vmap(lambda pair: jnp.stack(gaussian_pair(key, pair, n)))(pairs))(keys)
    return both.reshape(len(keys), -1, n)


def draw(keys, n_pairs, n):
    return np.asarray(noise(jnp.array(keys, jnp.uint32), jnp.arange(n_pairs), n), np.float64)


@functools.cache
def million():
    """Steps in front, those of a pair side by side: ``(1000, 1000)``."""
    return draw([(0, 7)], 500, 1000)[0]


def largest_z(x):
    """Of the correlations between the rows of x, the largest in standard errors."""
    correlations = np.corrcoef(x) * np.sqrt(x.shape[1])
    return np.abs(correlations[np.triu_indices(len(x), 1)]).max()


@pytest.mark.parametrize(
    ("counter", "key", "out"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((TOP, TOP), (TOP, TOP), (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
    ids=["noughts", "ones", "pi"],
)
def test_known_answers_of_random123(counter, key, out):
    got = bits(words(*key), *words(*counter))
    assert tuple(map(int, got)) == out


def test_the_bits_are_those_of_jax():
    rng = np.random.default_rng(0)
    high, low = rng.integers(0, 2**32, (2, 1000), dtype=np.uint32)
    for key in rng.integers(0, 2**32, (5, 2), dtype=np.uint32):
        # JAX takes the first half of an array for the high words, the second for the low ones.
        want = threefry_2x32(key, np.concatenate([high, low]))
        np.testing.assert_array_equal(np.concatenate(bits(jnp.asarray(key), high, low)), want)


def test_normals_against_double_precision():
    radial, angular = np.random.default_rng(1).integers(0, 2**32, (2, 200_000), dtype=np.uint32)
    x, y = np.asarray(normals(jnp.asarray(radial), jnp.asarray(angular)), np.float64)
    # Near u = 1 single precision moves r itself, so the radius starts from u as rounded, and is held to u below.
    rounded = (radial.astype(np.float32) + np.float32(0.5)) * np.float32(2**-32)
    angle = 2 * np.pi * angular.view(np.int32) / 2**32
    r = np.sqrt(-2 * np.log(rounded.astype(np.float64)))
    assert (np.abs(x - r * np.cos(angle)) < 1e-6 * np.maximum(r, 1)).all()
    assert (np.abs(y - r * np.sin(angle)) < 1e-6 * np.maximum(r, 1)).all()
    np.testing.assert_allclose(x**2 + y**2, -2 * np.log((radial + 0.5) / 2**32), rtol=2e-6, atol=2e-7)


def test_the_ends_of_the_bits_are_finite():
    ends = words(0, 1, 2**30, 2**31 - 1, 2**31, 3 * 2**30, TOP - 1, TOP)
    x, y = map(np.asarray, normals(ends[:, None], ends[None, :]))
    assert np.isfinite(x).all()
    assert np.isfinite(y).all()
    largest = np.sqrt(66 * np.log(2))  # u = 2⁻³³
    np.testing.assert_allclose(x[0, [0, 2, 4, 5]], [largest, 0, -largest, 0], atol=2e-6)
    np.testing.assert_allclose(y[0, [0, 2, 4, 5]], [0, largest, 0, -largest], atol=2e-6)
    np.testing.assert_array_equal(np.abs(x[-1]), 0)  # u = 1


def test_the_distribution_is_normal():
    x = million().ravel()
    assert stats.kstest(x, "norm").pvalue > 1e-3  # 99.9%
    # E[x, x², x³, x⁴] = 0, 1, 0, 3 with variances 1, 2, 15, 96; four standard errors: 99.97% for all four.
    powers = np.stack([x, x**2, x**3, x**4]).mean(axis=1)
    assert (np.abs(powers - [0, 1, 0, 3]) < 4 * np.sqrt(np.array([1, 2, 15, 96]) / x.size)).all()


@pytest.mark.parametrize("power", [1, 2], ids=["values", "squares"])
def test_the_two_of_a_pair_are_independent(power):
    first, second = million().reshape(500, 2, 1000).swapaxes(0, 1)
    # They share their radius: squares are where it would show. 4.5 standard errors: 99.999%.
    assert largest_z(np.stack([first.ravel(), second.ravel()]) ** power) < 4.5


# Correlations of up to 4950 pairs of rows within 5.5 standard errors: 99.98% for all of them at once. The fourth moment
# of squares makes their largest correlations a little larger; 5.5 is still beyond 99.9%.
@pytest.mark.parametrize("power", [1, 2], ids=["values", "squares"])
class TestIndependence:
    def test_of_steps(self, power):
        assert largest_z(million()[:100] ** power) < 5.5

    def test_of_coordinates(self, power):
        assert largest_z(million()[:, :100].T ** power) < 5.5

    def test_of_seeds(self, power):
        keys = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0), (TOP, 0), (0, TOP), (TOP, TOP)]
        x = draw(keys, 50, 1000).reshape(len(keys), -1)
        assert largest_z(x**power) < 5.5

    def test_of_one_step_and_coordinate_between_neighbouring_seeds(self, power):
        """Run r of seed s has the key (s, r): the first numbers of five thousand runs, each with the next."""
        x = draw([(0, r) for r in range(5001)], 1, 4)
        for neighbour in (x[1:], np.roll(x[1:], 1, axis=2), x[1:, ::-1]):
            assert largest_z(np.stack([x[:-1].ravel(), neighbour.ravel()]) ** power) < 5.5


@pytest.mark.slow
def test_a_number_depends_on_its_key_step_and_coordinate_only():
    whole = draw([(0, 0), (0, 1), (5, 6)], 20, 100)
    np.testing.assert_array_equal(draw([(0, 0), (0, 1), (5, 6)], 20, 10), whole[:, :, :10])
    np.testing.assert_array_equal(draw([(5, 6)], 3, 100), whole[2:, :6])
    later = noise(words(0, 1)[None], jnp.arange(7, 9), 100)
    np.testing.assert_array_equal(later, whole[1:2, 14:18])
    assert len(np.unique(whole)) > 0.999 * whole.size  # two of 12,000 may well agree in 24 bits
