"""Affine maps x W + b, with a gradient that needs fewer operations on a CPU for small minibatches.

Two hidden layers of 64 units with their gradient take 28 µs instead of 31 for 64 rows, and 199 µs instead of 203 for
512. For 4,096 rows it would be slower, because the transpose costs more than it saves.
"""

from typing import Any

import jax
import jax.numpy as jnp

NARROW = 4
"""Number of columns up to which the CPU multiplies them one by one: in XLA, the gradient of a product with few columns
takes as long as with sixty."""
FEW = 512
"""Number of rows up to which the gradient of `_affine` is used."""


def affine(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    """Return x W + b, ``(..., i)``, ``(i, o)`` and ``(o,)`` → ``(..., o)``.

    The product has one leading axis. With two, XLA transposes both operands of its gradient, which takes four times as
    long on a CPU.
    """
    rows = x.reshape(-1, x.shape[-1]) if x.ndim > 2 else x
    on_cpu, columns = jax.default_backend() == "cpu", kernel.shape[-1]
    if on_cpu and rows.ndim == 2 and len(rows) <= FEW:
        out = _affine(rows, kernel, bias)
    elif on_cpu and 1 < columns <= NARROW:
        out = jnp.stack([rows @ kernel[:, j] for j in range(columns)], axis=-1) + bias
    else:
        out = rows @ kernel + bias
    return out.reshape(*x.shape[:-1], columns)


def product(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Return x W, ``(..., i)`` and ``(i, o)`` → ``(..., o)``, with the gradient of `affine`."""
    return affine(x, kernel, jnp.zeros(kernel.shape[-1], kernel.dtype))


@jax.custom_jvp
def _affine(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    return x @ kernel + bias


@_affine.defjvp
def _(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    """The derivative is linear in its tangents, and written so that its transpose is the fast gradient.

    For W and b together it is [xᵀ; 1] g: the gradient of the bias costs one more row of a product.
    """
    (x, kernel, bias), (x_dot, kernel_dot, bias_dot) = primals, tangents
    columns = kernel.shape[-1]
    if columns <= NARROW:
        parts = [x_dot @ kernel[:, j] + x @ kernel_dot[:, j] for j in range(columns)]
        return _affine(x, kernel, bias), jnp.stack(parts, axis=-1) + bias_dot
    ones = jnp.ones((len(x), 1), x.dtype)
    # Transposed first: for a product that contains the transpose, XLA uses a slower library.
    rows = jax.lax.optimization_barrier(jnp.concatenate([x, ones], axis=1).T)
    both = jnp.concatenate([kernel_dot, bias_dot[None]])
    through_weights = jax.lax.dot_general(rows, both, (((0,), (0,)), ((), ())))
    return _affine(x, kernel, bias), x_dot @ kernel + through_weights
