"""Passes over a rollout: shuffled minibatches, all of them or until the policy has changed enough."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Metrics = dict[str, jax.Array]
Carry = Any
"""What a minibatch updates: the agent and its optimizer state."""
Minibatch = Callable[[Carry, jax.Array], tuple[Carry, Metrics]]
"""Maps the learned state and indices of samples, ``(batch_size,)``, to the new state and metrics."""


def run_epochs(
    minibatch: Minibatch, carry: Carry, keys: jax.Array, order: Callable[[jax.Array], jax.Array]
) -> tuple[Carry, Metrics]:
    """Learn from each minibatch; return the metrics of the last pass, averaged over its minibatches.

    - `keys`: one key per pass.
    - `order`: maps a key to the indices of its minibatches, ``(minibatches, batch_size)``.
    """

    def without_metrics(carry: Carry, key: jax.Array) -> tuple[Carry, None]:
        return jax.lax.scan(lambda carry, indices: (minibatch(carry, indices)[0], None), carry, order(key))

    # A separate loop for the last pass: in the others, the compiler removes what only metrics need, which is 4 % of the
    # time of a small network, and its kernels on a GPU.
    if len(keys) > 1:
        carry, _ = jax.lax.scan(without_metrics, carry, keys[:-1])
    carry, metrics = jax.lax.scan(minibatch, carry, order(keys[-1]))
    return carry, jax.tree.map(lambda x: x.mean(axis=0), metrics)


def run_until(
    minibatch: Minibatch,
    carry: Carry,
    keys: jax.Array,
    order: Callable[[jax.Array], jax.Array],
    *,
    measure: str,
    limit: float,
) -> tuple[Carry, Metrics]:
    """Run `run_epochs`, but stop before the first minibatch on which the metric `measure` exceeds `limit`.

    That minibatch changes nothing. Its metrics are part of the means over the last pass that was begun, and
    ``train/n_minibatches`` counts those that were learnt from.
    """
    metrics = jax.eval_shape(lambda: minibatch(carry, order(keys[0])[0]))[1]
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), metrics)

    def one(state: tuple[Carry, jax.Array], indices: jax.Array) -> tuple[Any, Any]:
        carry, goes_on = state

        def learn() -> tuple[Carry, jax.Array, Metrics]:
            new, metrics = minibatch(carry, indices)
            near = metrics[measure] <= limit
            return jax.tree.map(lambda a, b: jnp.where(near, a, b), new, carry), near, metrics

        new, near, metrics = jax.lax.cond(goes_on, learn, lambda: (carry, goes_on, nothing))
        return (new, near), (metrics, goes_on, near)

    def epoch(state: tuple[Carry, jax.Array], key: jax.Array) -> tuple[Any, Any]:
        state, (metrics, begun, learnt) = jax.lax.scan(one, state, order(key))
        count = begun.sum()
        return state, (jax.tree.map(lambda x: x.sum(axis=0) / jnp.maximum(count, 1), metrics), count, learnt.sum())

    (carry, _), (metrics, begun, learnt) = jax.lax.scan(epoch, (carry, jnp.bool_(True)), keys)
    last = (begun > 0).sum() - 1
    return carry, jax.tree.map(lambda x: x[last], metrics) | {"train/n_minibatches": learnt.sum()}


def shuffled(key: jax.Array, size: int) -> jax.Array:
    """Return the numbers below `size` in random order.

    Sorts one array with random bits in front of each number: XLA takes several times as long for the sort of pairs in
    `jax.random.permutation`. Two numbers with equal random bits (at least 16) stay in order.
    """
    behind = max(size - 1, 1).bit_length()
    if behind > 16:
        return jax.random.permutation(key, size)
    front = jax.random.bits(key, (size,), jnp.uint32) << behind
    return (jnp.sort(front | jnp.arange(size, dtype=jnp.uint32)) & ((1 << behind) - 1)).astype(jnp.int32)


def fixed_minibatches(samples: jax.Array, batch_size: int) -> Callable[[jax.Array], jax.Array]:
    """Return a function from a key to the same minibatches of shuffled samples in another order.

    Samples that do not fill a last minibatch are dropped.

    >>> order = fixed_minibatches(jnp.arange(5), 2)
    >>> sorted(jax.jit(order)(jax.random.key(0)).tolist())
    [[0, 1], [2, 3]]
    """
    count = len(samples) // batch_size
    minibatches = samples[: count * batch_size].reshape(count, batch_size)
    return lambda key: minibatches[shuffled(key, count)]


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
    steps = first + jnp.arange(length, dtype=first.dtype)[:, None]
    return (steps * n_envs + numbers % n_envs).reshape(-1, batch_size)
