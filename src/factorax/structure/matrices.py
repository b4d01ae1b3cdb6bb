"""Influence matrices: their canonical form, and their connectivity."""

import hashlib
from typing import Any, cast

import numpy as np
from scipy import sparse

from .._text import shown


def canonical(matrix: Any) -> sparse.csr_array:
    """Return K as a read-only CSR matrix with sorted indices and no stored zeros.

    The entries are boolean if all weights are 0 or 1, and float64 otherwise.
    """
    raw = cast(Any, matrix) if sparse.issparse(matrix) else _dense(matrix)
    if raw.ndim == 0:
        raise ValueError(f"matrix: got {shown(matrix)}, want two dimensions (n_actions, n_targets)")
    if raw.ndim != 2:
        raise ValueError(f"matrix: got shape {raw.shape}, want two dimensions (n_actions, n_targets)")
    if raw.dtype.kind not in "biuf":
        raise TypeError(f"matrix: got entries of type {raw.dtype}, want booleans or weights in [0, 1]")
    if 0 in raw.shape:
        raise ValueError(f"matrix: got shape {raw.shape}, want at least one action and one target")
    if raw.dtype != np.bool_:
        raw = raw.astype(np.float64)
    csr = sparse.csr_array(raw, copy=True)  # never share or modify the caller's matrix
    csr.sum_duplicates()
    if csr.dtype != np.bool_:
        if np.isnan(csr.data).any():
            raise ValueError("matrix: holds NaN; want booleans or weights in [0, 1]")
        if ((csr.data < 0) | (csr.data > 1)).any():
            worst = csr.data[np.argmax(np.maximum(-csr.data, csr.data - 1))]
            raise ValueError(f"matrix: holds the weight {worst:g}; want booleans or weights in [0, 1]")
        if np.isin(csr.data, (0, 1)).all():
            csr = csr.astype(np.bool_)
    csr.eliminate_zeros()
    csr.sort_indices()
    if max(csr.nnz, *csr.shape) < 2**31:  # one index type, so that equal networks have equal hashes
        csr.indices, csr.indptr = csr.indices.astype(np.int32), csr.indptr.astype(np.int32)
    for array in (csr.data, csr.indices, csr.indptr):
        array.setflags(write=False)
    return csr


def _dense(matrix: Any) -> Any:
    try:
        return np.asarray(matrix)
    except ValueError as error:
        raise ValueError(
            f"matrix: got {shown(matrix)}, with rows of different lengths; want a rectangular matrix"
        ) from error


def digest(shape: tuple[int, int], matrix: sparse.csr_array | None, labels: Any) -> bytes:
    """Return a 16-byte hash that is equal for equal networks; `matrix` is None for a complete network (all ones)."""
    h = hashlib.blake2b(repr(shape).encode(), digest_size=16)
    if matrix is not None:
        for array in (matrix.indptr, matrix.indices, matrix.data):
            h.update(array.tobytes())
    h.update(repr(labels).encode())
    return h.digest()


def isolated(matrix: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of empty rows and of empty columns."""
    reached = np.zeros(matrix.shape[1], dtype=bool)
    reached[matrix.indices] = True
    return np.flatnonzero(np.diff(matrix.indptr) == 0), np.flatnonzero(~reached)


def component_of(matrix: sparse.csr_array) -> np.ndarray:
    """Return the component number of every action, then of every target, shape ``(n_actions + n_targets,)``."""
    from scipy.sparse.csgraph import connected_components  # slow to import

    n, m = matrix.shape
    coo = matrix.tocoo()
    size = n + m
    both = sparse.coo_array((np.ones(coo.nnz, dtype=np.int8), (coo.row, coo.col + n)), (size, size))
    return connected_components(both, directed=False)[1]


def connected_blocks(matrix: sparse.csr_array) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the rows and columns of every connected component that has at least one of each."""
    label = component_of(matrix)
    n, count = matrix.shape[0], label.max() + 1
    rows, columns = (
        np.split(np.argsort(side, kind="stable"), np.cumsum(np.bincount(side, minlength=count))[:-1])
        for side in (label[:n], label[n:])
    )
    return [(r, c) for r, c in zip(rows, columns, strict=True) if r.size and c.size]


def fills_component(matrix: sparse.csr_array) -> np.ndarray:
    """Return whether each action influences all targets of its component with weight 1, shape ``(n_actions,)``."""
    n = matrix.shape[0]
    label = component_of(matrix)
    targets_in_component = np.bincount(label[n:], minlength=label.max() + 1)
    degree = np.diff(matrix.indptr)
    fills = degree == np.where(degree == 0, 0, targets_in_component[label[:n]])
    if matrix.dtype != np.bool_:
        full = sparse.csr_array((matrix.data == 1, matrix.indices, matrix.indptr), matrix.shape)
        fills &= np.asarray(full.sum(axis=1)) == degree
    return fills
