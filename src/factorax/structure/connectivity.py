"""Connectivity of an influence matrix: components, isolated rows and columns, and the co-parent condition."""

import numpy as np
from scipy import sparse


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
