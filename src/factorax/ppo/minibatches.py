"""Orders of samples: random minibatches of steps, or of sequences."""

import jax
import jax.numpy as jnp


def shuffled(key: jax.Array, size: int) -> jax.Array:
    """Return the numbers below `size` in random order.

    Numbers with equal random bits (at least 16, of 32 for large sizes) stay in order.
    """
    # Sorted once: `jax.random.permutation` sorts pairs twice, 6 % of an update of 2,048 × 128 steps on a GPU.
    behind = max(size - 1, 1).bit_length()
    if behind > 16:
        return jnp.argsort(jax.random.bits(key, (size,), jnp.uint32))
    # Few numbers fit into the last bits of one array, whose sort is faster than that of pairs.
    front = jax.random.bits(key, (size,), jnp.uint32) << behind
    return (jnp.sort(front | jnp.arange(size, dtype=jnp.uint32)) & ((1 << behind) - 1)).astype(jnp.int32)


def sequence_order(key: jax.Array, n_envs: int, n_steps: int, length: int, batch_size: int) -> jax.Array:
    """Return the indices of minibatches of sequences in random order, ``(minibatches, batch_size)``.

    Sample t B + b is step t of environment b. A sequence is `length` steps of one environment; within a minibatch
    indices are ordered by time, then by sequence.

    >>> from functools import partial
    >>> order = jax.jit(partial(sequence_order, n_envs=1, n_steps=4, length=2, batch_size=4))
    >>> order(jax.random.key(0)).tolist()
    [[0, 2, 1, 3]]
    """
    numbers = shuffled(key, n_envs * n_steps // length).reshape(-1, 1, batch_size // length)
    first = numbers // n_envs * length
    # Time first, as recurrent networks read it: reshaping a minibatch to (length, sequences) moves no data.
    steps = first + jnp.arange(length, dtype=first.dtype)[:, None]
    return (steps * n_envs + numbers % n_envs).reshape(-1, batch_size)
