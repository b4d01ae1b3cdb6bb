"""One way to hold an influence matrix, whatever it comes as; every mistake in it is found here."""

from typing import Any, cast

import numpy as np
from scipy import sparse


def canonical(matrix: Any) -> sparse.csr_array:
    """K as CSR, sorted, without stored zeros; boolean if all weights are 0 or 1, else float64; never written to."""
    given = cast(Any, matrix) if sparse.issparse(matrix) else _dense(matrix)
    if given.ndim != 2:
        raise ValueError(f"matrix: got shape {given.shape}, want two dimensions (n_actions, n_targets)")
    if given.dtype.kind not in "biuf":
        raise TypeError(f"matrix: got entries of type {given.dtype}, want booleans or weights in [0, 1]")
    if 0 in given.shape:
        raise ValueError(f"matrix: got shape {given.shape}, want at least one action and one target")
    if given.dtype != np.bool_:
        given = given.astype(np.float64)
    csr = sparse.csr_array(given, copy=True)  # the caller's own matrix is never shared or changed
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
    if max(csr.nnz, *csr.shape) < 2**31:  # one index type, however the matrix was made: equal networks hash alike
        csr.indices, csr.indptr = csr.indices.astype(np.int32), csr.indptr.astype(np.int32)
    for array in (csr.data, csr.indices, csr.indptr):
        array.setflags(write=False)
    return csr


def _dense(matrix: Any) -> Any:
    try:
        return np.asarray(matrix)
    except ValueError as error:
        raise ValueError("matrix: rows of different lengths; want a rectangular matrix") from error
