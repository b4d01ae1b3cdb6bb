"""Influence matrices as arrays, for networks that compute K inside a compiled program."""

from dataclasses import dataclass
from typing import Any

from .._checks import shown


@dataclass(frozen=True, eq=False)
class KArray:
    """An influence matrix as an array of shape ``(..., n, m)``, possibly traced by JAX.

    The matrix is either the same for all samples or has one entry per sample. `factorax.credit` accepts a `KArray` in
    place of a network.

    >>> import factorax as fx, numpy as np
    >>> fx.credit(KArray(np.array([[[1.0, 1.0]], [[0.0, 1.0]]])), np.array([[10.0, 1.0], [10.0, 1.0]]))
    array([[11.],
           [ 1.]])
    """

    matrix: Any

    def __post_init__(self) -> None:
        if len(getattr(self.matrix, "shape", ())) < 2:
            raise TypeError(f"matrix: got {shown(self.matrix)}, want an array of shape (..., n, m)")
        if any(kind in str(self.matrix.dtype) for kind in ("complex", "object", "<U")):
            raise TypeError(f"matrix: got entries of type {self.matrix.dtype}, want weights in [0, 1]")

    @property
    def shape(self) -> tuple[int, int]:
        """``(n_actions, n_targets)``."""
        return self.matrix.shape[-2], self.matrix.shape[-1]
