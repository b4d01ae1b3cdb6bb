"""Where kernels of a plug-in replace the layers of networks; see `factorax.plugins.register_kernels`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax

from .. import plugins

_only_forward: ContextVar[bool] = ContextVar("only_forward", default=False)


@contextmanager
def without_gradients(holds: bool = True) -> Iterator[None]:
    """Allow networks that are traced in this context to use kernels, which have no derivatives there; does nothing if
    `holds` is false."""
    token = _only_forward.set(holds)
    try:
        yield
    finally:
        _only_forward.reset(token)


def can_fuse(rows: int, kernels: Sequence[jax.Array], activation: str) -> bool:
    """Return whether there are kernels for this many rows and layers ``(..., inputs, outputs)``."""
    module = plugins.kernels() if jax.default_backend() != "cpu" else None
    return module is not None and module.can_fuse(rows, kernels, activation)


def forward_only(x: jax.Array, kernels: Sequence[jax.Array], biases: Sequence[jax.Array], activation: str) -> Any:
    """Return the outputs of one network for inputs ``(..., inputs)``, or None where `without_gradients` or `can_fuse`
    do not hold."""
    rows = x.size // x.shape[-1]
    if not _only_forward.get() or not can_fuse(rows, kernels, activation):
        return None
    one = [kernel[None] for kernel in kernels], [bias[None, None] for bias in biases]
    return plugins.kernels().forward(x.reshape(rows, -1), *one, activation)[0].reshape(*x.shape[:-1], -1)
