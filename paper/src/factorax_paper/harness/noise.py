"""Gaussian noise as a pure function of (key, step, coordinate), so that any batch of runs draws the same numbers.

The bits are those of Threefry-2x32 with all twenty rounds (Salmon et al., 2011), the generator behind `jax.random`,
unrolled so that XLA vectorises it: on a CPU this is several times as fast as the rolled loop there. The Box–Muller
transform turns two words into two normals, one for each of two consecutive steps.
"""

import jax
import jax.numpy as jnp
from jax import lax

# Fused into the update of a run, these numbers cost 3 ns each on two cores; `jax.random.normal` costs 10 ns and NumPy's
# generator 13 ns (docs/explanation/benchmarks.md). Noise takes most of the time of a step, so this is worth the code.
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA

# sin(πv) = v · p(v²) and cos(πv) = q(v²) on |v| ≤ ½, to 7e-9 and 5e-8: least squares at Chebyshev nodes.
_SIN = (3.14159264, -5.16771008, 2.55007752, -0.598291286, 0.0776576603)
_COS = (0.999999953, -4.93479283, 4.05841135, -1.33187657, 0.219689611)


def gaussian_pair(key: jax.Array, pair: jax.Array, n: int) -> tuple[jax.Array, jax.Array]:
    """Return the noise of steps 2·pair and 2·pair + 1 of one run: two float32 arrays of shape ``(n,)``.

    `key` has shape ``(2,)``, two words of 32 bits; `pair` is a 32-bit scalar.

    >>> import numpy as np
    >>> pair = jax.jit(gaussian_pair, static_argnums=2)(np.uint32([0, 7]), np.uint32(0), 100_000)
    >>> first, second = map(np.asarray, pair)
    >>> bool(abs(first.mean()) < 0.02), bool(abs((first * second).mean()) < 0.02)
    (True, True)
    """
    words = threefry(key, pair.astype(jnp.uint32), jnp.arange(n, dtype=jnp.uint32))
    return box_muller(*words)


def threefry(key: jax.Array, high: jax.Array, low: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return Threefry-2x32 of the counters (high, low), which broadcast: two words of random bits each."""
    # Unrolled in Python: a `lax.fori_loop` over rounds would keep XLA from vectorising over the counters.
    schedule = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(_PARITY))
    x, y = high + schedule[0], low + schedule[1]
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            x = x + y
            y = x ^ ((y << jnp.uint32(turn)) | (y >> jnp.uint32(32 - turn)))
        x = x + schedule[(group + 1) % 3]
        y = y + schedule[(group + 2) % 3] + jnp.uint32(group + 1)
    return x, y


def box_muller(radial: jax.Array, angular: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return two independent standard normals from two words of bits: r cos 2πv and r sin 2πv, r² = −2 log u."""
    u = (radial.astype(jnp.float32) + jnp.float32(0.5)) * jnp.float32(2.0**-32)  # in (0, 1]
    r = jnp.sqrt(jnp.float32(-2) * jnp.log(u))
    v = lax.bitcast_convert_type(angular, jnp.int32).astype(jnp.float32) * jnp.float32(2.0**-32)  # in [−½, ½]
    # Polynomials instead of jnp.sin and jnp.cos, whose range reduction is not needed for |v| ≤ ½.
    sine, cosine = v * _polynomial(_SIN, v * v), _polynomial(_COS, v * v)  # of πv, half the angle
    return r * (1 - 2 * sine * sine), r * (2 * sine * cosine)


def _polynomial(coefficients: tuple[float, ...], x: jax.Array) -> jax.Array:
    result = jnp.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        result = result * x + jnp.float32(c)
    return result
