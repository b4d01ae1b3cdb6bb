"""One way to hold an influence matrix, whatever it comes as; every mistake in it is found here."""

from typing import Any

import numpy as np
from scipy import sparse


def canonical(matrix: Any) -> sparse.csr_array:
    """K as CSR with sorted indices and no stored zeros; boolean if all weights are 0 or 1; never written to."""
    csr: sparse.csr_array
    if sparse.issparse(matrix):
        csr = sparse.csr_array(matrix, copy=True)  # pyright: ignore[reportArgumentType, reportCallIssue]  # the caller's own matrix is never shared or changed
    else:
        try:
            dense = np.asarray(matrix)
        except ValueError as error:
            raise ValueError("matrix: rows of different lengths; want a rectangular matrix") from error
        if dense.ndim != 2:
            raise ValueError(f"matrix: got shape {dense.shape}, want two dimensions (n_actions, n_targets)")
        if dense.dtype.kind not in "biuf":
            raise TypeError(f"matrix: got entries of type {dense.dtype}, want booleans or weights in [0, 1]")
        csr = sparse.csr_array(dense)
    if 0 in csr.shape:
        raise ValueError(f"matrix: got shape {csr.shape}, want at least one action and one target")
    csr.sum_duplicates()
    if csr.dtype != np.bool_:
        data = csr.data
        if np.isnan(data).any():
            raise ValueError("matrix: holds NaN; want booleans or weights in [0, 1]")
        if ((data < 0) | (data > 1)).any():
            worst = data[np.argmax(np.maximum(-data, data - 1))]
            raise ValueError(f"matrix: holds the weight {worst:g}; want booleans or weights in [0, 1]")
        csr.data = data.astype(np.bool_) if np.isin(data, (0, 1)).all() else data.astype(np.float64)
    csr.eliminate_zeros()
    csr.sort_indices()
    if max(csr.nnz, *csr.shape) < 2**31:  # one index type, however the matrix was made: equal networks hash alike
        csr.indices, csr.indptr = csr.indices.astype(np.int32), csr.indptr.astype(np.int32)
    for array in (csr.data, csr.indices, csr.indptr):
        array.setflags(write=False)
    return csr
