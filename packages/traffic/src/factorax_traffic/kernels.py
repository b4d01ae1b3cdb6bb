"""The layers of networks and their gradient as two kernels, for the large minibatches of large grids on a GPU.

They are the architecture ``fused``: `mlp` with kernels where these pay, and layer by layer elsewhere.

XLA computes one layer after another and writes the activations of each to memory, which takes most of the time of a
minibatch of a million rows: every number is written and read several times. Here a program keeps the activations of
some rows on the chip. The gradient computes them again from the inputs, so that only inputs, outputs and the sums of
gradients are in memory. Products have the precision that XLA uses for such products by default (TF32 on recent GPUs).
"""

import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from factorax.networks import Mlp
from factorax.networks.mlp import MLP

ROWS, WARPS = 64, 4
"""Number of rows that a program computes at once, and of warps that share them."""
GRADIENT_ROWS, GRADIENT_WARPS = 32, 2
"""The same for the gradient, whose sums leave fewer registers."""
PROGRAMS = 1056
"""Number of programs for each network in the gradient, each of which adds up the gradients of many rows."""
SMALLEST = 2**16
"""Number of rows from which the kernels are used. With five seeds of 9,216 rows each, minibatches take 0.9 of the time,
but the first update comes two seconds later."""
WIDEST = 128
"""Maximum number of inputs and units: a layer must fit into the registers of a program."""
NARROWEST = 16
"""Minimum size of the matrices that the device multiplies."""
_DERIVATIVES: dict[str, Any] = {"tanh": lambda h: 1 - h * h, "relu": lambda h: (h > 0).astype(h.dtype)}
"""Derivatives of activations, as functions of their values."""


def can_fuse(rows: int, kernels: Sequence[jax.Array], activation: str) -> bool:
    """Return whether the kernels are available and pay for this many rows and layers ``(..., inputs, outputs)``."""
    if rows < SMALLEST or activation not in _DERIVATIVES or len(kernels) < 2 or not _has_kernels():
        return False
    *hidden, last = (kernel.shape[-1] for kernel in kernels)
    sizes_fit = all(size in (16, 32, 64, 128) for size in hidden) and max(kernels[0].shape[-2], last) <= WIDEST
    in_default_precision = getattr(jax.config, "jax_default_matmul_precision", None) is None
    return sizes_fit and in_default_precision and all(kernel.dtype == jnp.float32 for kernel in kernels)


@cache
def _has_kernels() -> bool:
    """Return whether there is one GPU: with several, XLA would not distribute the work of a kernel."""
    return jax.default_backend() == "gpu" and jax.local_device_count() == 1 and _triton() is not None


@cache
def _triton() -> Any:
    """Return the module of JAX for Triton kernels; None if this version has none."""
    try:
        with warnings.catch_warnings(action="ignore"):
            from jax.experimental.pallas import triton
    except ImportError:
        return None
    return triton


def fused(x: jax.Array, kernels: Sequence[jax.Array], biases: Sequence[jax.Array], activation: str) -> jax.Array:
    """Map inputs ``(N, inputs)`` to the outputs of G networks, ``(G, N, width)``.

    - `kernels`: ``(G, inputs, outputs)`` of each layer; `biases`: ``(G, 1, outputs)``.

    The gradient with respect to `x` is 0: inputs are data. There are no forward derivatives (`jax.jvp`).
    """
    outputs: Any = _fused(x, list(kernels), list(biases), activation)
    return outputs


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def _fused(x: jax.Array, kernels: Any, biases: Any, activation: str) -> jax.Array:
    return forward(x, kernels, biases, activation)


def _fused_forward(x: jax.Array, kernels: Any, biases: Any, activation: str) -> tuple[jax.Array, Any]:
    return forward(x, kernels, biases, activation), (x, kernels, biases)


def _fused_backward(activation: str, saved: Any, gradient: jax.Array) -> tuple[Any, ...]:
    x, kernels, biases = saved
    return jnp.zeros_like(x), *_backward(x, kernels, biases, gradient, activation)


_fused.defvjp(_fused_forward, _fused_backward)


def _power(size: int) -> int:
    return max(NARROWEST, 1 << (size - 1).bit_length())


def _split(size: int) -> list[tuple[int, int]]:
    """Return the starts and widths of parts that cover a number of columns, powers of two, with little left over.

    >>> _split(42)
    [(0, 32), (32, 16)]
    """
    rest, parts = -(-size // NARROWEST) * NARROWEST, []
    while rest:
        width = 1 << (rest.bit_length() - 1)
        parts.append((sum(each for _, each in parts), width))
        rest -= width
    return parts


class _Layers(NamedTuple):
    """The parameters of networks, or the sums of their gradients, padded to sizes that the device multiplies."""

    first: list[Any]
    """The kernel of the first layer, in parts of its inputs, ``(G, width, units)`` each."""
    kernels: list[Any]
    """Those of the other layers, ``(G, units, outputs)``; ``(G, units)`` if there is one output."""
    biases: list[Any]
    """``(G, outputs)``; ``(G,)`` if there is one output."""

    @classmethod
    def of(cls, kernels: Sequence[jax.Array], biases: Sequence[jax.Array]) -> "_Layers":
        """Pad kernels and biases. Hidden layers have such sizes already."""

        def padded(x: jax.Array, axis: int, size: int) -> jax.Array:
            return jnp.pad(x, [(0, size - x.shape[i] if i == axis else 0) for i in range(x.ndim)])

        parts, width = _split(kernels[0].shape[1]), kernels[-1].shape[-1]
        first = padded(kernels[0], 1, sum(parts[-1]))
        last = kernels[-1][..., 0] if width == 1 else padded(kernels[-1], 2, _power(width))
        last_bias = biases[-1][:, 0, 0] if width == 1 else padded(biases[-1][:, 0], 1, _power(width))
        cut = [first[:, start : start + size] for start, size in parts]
        return cls(cut, [*kernels[1:-1], last], [*(bias[:, 0] for bias in biases[:-1]), last_bias])

    def unpadded(self, kernels: Sequence[jax.Array], biases: Sequence[jax.Array]) -> tuple[Any, Any]:
        """Return lists of arrays with the shapes of `kernels` and `biases`."""
        *hidden, last = self.kernels
        last = last[..., None] if last.ndim == 2 else last
        first = jnp.concatenate(self.first, axis=1)[:, : kernels[0].shape[1]]
        of_biases = [
            each.reshape(*b.shape[:2], -1)[..., : b.shape[2]] for each, b in zip(self.biases, biases, strict=True)
        ]
        return [first, *hidden, last[..., : kernels[-1].shape[-1]]], of_biases


def _call(kernel: Any, grid: int, warps: int, out: Any, *args: Any) -> Any:
    from jax.experimental import pallas as pl

    on_gpu = jax.default_backend() == "gpu"
    options = {"compiler_params": _triton().CompilerParams(num_warps=warps, num_stages=2)} if on_gpu else {}
    return pl.pallas_call(kernel, out_shape=out, grid=(grid,), interpret=not on_gpu, **options)(*args)


def _dot(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.dot(a, b, preferred_element_type=jnp.float32)


def _activated(z: jax.Array, activation: str) -> jax.Array:
    """Return the activation. The tanh of the device has a relative error of 2⁻¹¹, that of rounding its value to TF32
    for the next product; the library's takes a fourth of the time of the kernels."""
    if activation == "relu":
        return jnp.maximum(z, 0)
    return _triton().approx_tanh(z) if jax.default_backend() == "gpu" else jnp.tanh(z)


def _hidden(tiles: list[jax.Array], weights: _Layers, activation: str) -> list[jax.Array]:
    """Return the values of the hidden layers of one network for some rows, given as parts of their columns."""
    z = functools.reduce(jnp.add, map(_dot, tiles, weights.first))
    values = [_activated(z + weights.biases[0][None, :], activation)]
    for kernel, bias in zip(weights.kernels[:-1], weights.biases[1:-1], strict=True):
        values.append(_activated(_dot(values[-1], kernel) + bias[None, :], activation))
    return values


def _tile(ref: Any, lead: Sequence[Any], rows: jax.Array, shape: tuple[int, ...], start: int, size: int) -> jax.Array:
    """Return some rows of an array, and `size` columns from `start` on; 0 outside of its shape."""
    i, j = rows[:, None], start + jnp.arange(size)[None, :]
    return _triton().load(ref.at[(*lead, i, j)], mask=(i < shape[0]) & (j < shape[1]), other=0.0)


def forward(x: jax.Array, kernels: Any, biases: Any, activation: str) -> jax.Array:
    """Return what `fused` does, without derivatives."""
    from jax.experimental import pallas as pl

    (nets, _, width), rows = kernels[-1].shape, len(x)

    def kernel(x_ref: Any, layers: _Layers, out_ref: Any) -> None:
        net, i = pl.program_id(0) % nets, pl.program_id(0) // nets * ROWS + jnp.arange(ROWS)
        tiles = [_tile(x_ref, (), i, x.shape, *part) for part in _split(x.shape[1])]
        weights: _Layers = jax.tree.map(lambda ref: ref[net], layers)
        last = _hidden(tiles, weights, activation)[-1]
        if width == 1:
            out = (last * weights.kernels[-1][None, :]).sum(axis=1) + weights.biases[-1]
            _triton().store(out_ref.at[net, i, 0], out, mask=i < rows)
        else:
            i, j = i[:, None], jnp.arange(_power(width))[None, :]
            out = _dot(last, weights.kernels[-1]) + weights.biases[-1][None, :]
            _triton().store(out_ref.at[net, i, j], out, mask=(i < rows) & (j < width))

    shape = jax.ShapeDtypeStruct((nets, rows, width), jnp.float32)
    return _call(kernel, nets * -(-rows // ROWS), WARPS, shape, x, _Layers.of(kernels, biases))


def _backward(x: jax.Array, kernels: Any, biases: Any, gradient: jax.Array, activation: str) -> tuple[Any, Any]:
    """Return the gradients of kernels and biases, given that of the outputs, ``(G, N, width)``."""
    from jax.experimental import pallas as pl

    (nets, _, width), rows, derivative = kernels[-1].shape, len(x), _DERIVATIVES[activation]
    size = GRADIENT_ROWS
    blocks = -(-rows // size)
    programs = min(PROGRAMS, blocks)

    def kernel(x_ref: Any, gradient_ref: Any, layers: _Layers, *sum_refs: Any) -> None:
        net, program = pl.program_id(0) % nets, pl.program_id(0) // nets
        weights: _Layers = jax.tree.map(lambda ref: ref[net], layers)

        def add(block: Any, sums: _Layers) -> _Layers:
            i = (program + block * programs) * size + jnp.arange(size)
            tiles = [_tile(x_ref, (), i, x.shape, *part) for part in _split(x.shape[1])]
            values = _hidden(tiles, weights, activation)
            of_kernels, of_biases = list(sums.kernels), list(sums.biases)
            if width == 1:
                below = _triton().load(gradient_ref.at[net, i, 0], mask=i < rows, other=0.0)
                of_biases[-1] += below
                of_kernels[-1] += values[-1] * below[:, None]
                below = below[:, None] * weights.kernels[-1][None, :]
            else:
                below = _tile(gradient_ref, (net,), i, gradient.shape[1:], 0, _power(width))
                of_biases[-1] += below
                of_kernels[-1] += _dot(values[-1].T, below)
                below = _dot(below, weights.kernels[-1].T)
            for layer in reversed(range(1, len(values))):
                below = below * derivative(values[layer])
                of_biases[layer] += below
                of_kernels[layer - 1] += _dot(values[layer - 1].T, below)
                below = _dot(below, weights.kernels[layer - 1].T)
            below = below * derivative(values[0])
            of_biases[0] += below
            of_first = [total + _dot(tile.T, below) for total, tile in zip(sums.first, tiles, strict=True)]
            return _Layers(of_first, of_kernels, of_biases)

        # Sums over rows are taken only once, at the end: in every step, they would wait for all threads of a program.
        by_row = lambda weight: jnp.zeros((size, *weight.shape), jnp.float32)  # noqa: E731
        zeros: _Layers = jax.tree.map(lambda weight: jnp.zeros(weight.shape, jnp.float32), weights)
        zeros = zeros._replace(biases=[by_row(bias) for bias in weights.biases])
        if width == 1:
            zeros = zeros._replace(kernels=[*zeros.kernels[:-1], by_row(weights.kernels[-1])])
        totals = jax.lax.fori_loop(0, -(-blocks // programs), add, zeros)
        totals = totals._replace(biases=[total.sum(axis=0) for total in totals.biases])
        if width == 1:
            totals = totals._replace(kernels=[*totals.kernels[:-1], totals.kernels[-1].sum(axis=0)])
        for ref, total in zip(jax.tree.leaves(sum_refs), jax.tree.leaves(totals), strict=True):
            ref[net, program] = total

    layers = _Layers.of(kernels, biases)
    shapes = jax.tree.map(lambda each: jax.ShapeDtypeStruct((nets, programs, *each.shape[1:]), jnp.float32), layers)
    sums = _call(kernel, nets * programs, GRADIENT_WARPS, shapes, x, gradient, layers)
    return _Layers(*jax.tree.map(lambda each: each.sum(axis=1), sums)).unpadded(kernels, biases)


class FusedMLP(MLP):
    """A multilayer perceptron that is one kernel where `can_fuse` holds.

    The gradient with respect to its inputs is then 0: they must be data.
    """

    def __call__(self, x: jax.Array) -> jax.Array:
        """Map ``(..., first size)`` to ``(..., last size)``."""
        rows = x.reshape(-1, x.shape[-1])
        if self.scales or not can_fuse(len(rows), self.kernels, self.activation):
            return super().__call__(x)
        one = [kernel[None] for kernel in self.kernels], [bias[None, None] for bias in self.biases]
        return fused(rows, *one, self.activation)[0].reshape(*x.shape[:-1], -1)


@dataclass(frozen=True)
class Fused(Mlp):
    """Fully connected layers as one kernel, for minibatches of 65,536 rows and more on a GPU."""

    mlp: ClassVar[Any] = FusedMLP
