"""Storage forms of an influence matrix, and the choice of the cheapest form for a given matrix.

K is constant, so the way to apply it is chosen once per network. A form holds the data needed to compute K x for a
vector x of targets; the computation itself is in `factorax.credit` only.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

# Cost of one entry relative to one multiply-add of a dense product: batches of 500 to 8,000 targets on two CPU cores.
GATHER_COST = 20.0  # an entry fetched by index
SHIFT_COST = 10.0  # an entry of a diagonal
MAX_SHARED_COLUMNS = 4


class AnyForm:
    """Base class of all forms."""

    @cached_property
    def constants(self) -> dict[Any, Any]:
        """Cache of parts of the form as arrays of other libraries, devices and dtypes; filled by `factorax.credit`."""
        return {}


@dataclass(frozen=True, eq=False)
class Ones(AnyForm):
    """Every action influences every target: K x is one sum."""

    n_rows: int


@dataclass(frozen=True, eq=False)
class Select(AnyForm):
    """Every action influences exactly one target: identity, permutation or many-to-one."""

    columns: np.ndarray  # (n_rows,)

    @cached_property
    def run(self) -> slice | None:
        """The columns as one slice if they are consecutive, otherwise None."""
        first = int(self.columns[0])
        stop = first + len(self.columns)
        return slice(first, stop) if np.array_equal(self.columns, np.arange(first, stop)) else None


@dataclass(frozen=True, eq=False)
class SelectPlusColumns(AnyForm):
    """Each action has one target that it need not share, and most share a few others, as in the search bandit.

    Twice as fast as `Sparse` with 100 and 1,000 actions on a CPU.
    """

    select: Select
    shared: tuple[tuple[int, np.ndarray | None], ...]  # (column, which rows have it; None: all of them)


@dataclass(frozen=True, eq=False)
class Diagonals(AnyForm):
    """Every action influences the targets at a few fixed distances: bands, neighbours on a grid.

    1.3 times as fast as `Sparse` on a 30 × 30 grid, five times on a band of five diagonals, on a CPU.
    """

    n_rows: int
    n_columns: int
    diagonals: tuple[tuple[int, np.ndarray | None], ...]  # (offset j − i, entries by row; None: all 1)

    @cached_property
    def padding(self) -> tuple[int, int]:
        """Number of zeros before and after the targets that make every diagonal a complete slice."""
        offsets = [offset for offset, _ in self.diagonals]
        return max(0, -min(offsets)), max(0, self.n_rows + max(offsets) - self.n_columns)


@dataclass(frozen=True, eq=False)
class Sparse(AnyForm):
    """No special structure: gather by index with rows of similar degree together, so that one long row does not pad all
    others; or SciPy's product for NumPy arrays."""

    matrix: sparse.csr_array

    @cached_property
    def buckets(self) -> tuple[tuple[np.ndarray, np.ndarray | None], ...]:
        """Rows in buckets by degree 1, 2, 3–4, 5–8, …: for each bucket the columns ``(rows, width)`` and the entries.

        Short rows are padded with entries of 0. The entries are None if all entries of a bucket are 1. Rows without
        targets are in the last bucket, which has width 0.
        """
        return tuple(_pad(self.matrix, rows) for rows in self._rows_by_degree)

    @cached_property
    def order(self) -> np.ndarray | None:
        """Position of each row in the concatenated buckets; None if the rows are already in order."""
        order = np.argsort(np.concatenate(self._rows_by_degree))
        return None if np.array_equal(order, np.arange(len(order))) else order

    @cached_property
    def _rows_by_degree(self) -> list[np.ndarray]:
        degree = np.diff(self.matrix.indptr)
        if _padded_size(degree) >= len(degree) * degree.max(initial=0) / 2:
            return [np.arange(len(degree))]
        size = _ceil_power_of_two(degree)
        return [np.flatnonzero(size == s) for s in np.unique(size)[::-1]]


@dataclass(frozen=True, eq=False)
class Dense(AnyForm):
    """No special structure, and dense or small enough for a matrix product."""

    matrix: np.ndarray


Form = Ones | Select | SelectPlusColumns | Diagonals | Sparse | Dense


def choose_form(matrix: sparse.csr_array) -> Form:
    """Return the cheapest form of `matrix`, a canonical CSR matrix (boolean, or entries in [0, 1])."""
    n, m = matrix.shape
    degree = np.diff(matrix.indptr)
    if matrix.dtype == np.bool_:
        if matrix.nnz == n * m:
            return Ones(n)
        if (degree == 1).all():
            return Select(matrix.indices)
        shared = _select_plus_columns(matrix)
        if shared is not None:
            return shared
    # A form for equal rows and one for windows of equal length were no faster on a CPU: 400 rows of which 100 are
    # distinct took 1.0 ms where Sparse takes 0.6 ms, and a band of 161 entries 2.9 ms where
    # Dense takes 2.7 ms.
    diagonal_of = matrix.indices - np.repeat(np.arange(n), degree)
    offsets = np.flatnonzero(np.bincount(diagonal_of + n - 1, minlength=n + m - 1)) - (n - 1)
    as_dense, as_sparse = float(n * m), GATHER_COST * _padded_size(degree)
    as_diagonals = SHIFT_COST * n * len(offsets)
    if matrix.nnz and as_diagonals <= min(as_dense, as_sparse):
        return Diagonals(n, m, _diagonals(matrix, diagonal_of, offsets))
    return Sparse(matrix) if as_sparse < as_dense else Dense(matrix.toarray())


def _select_plus_columns(matrix: sparse.csr_array) -> SelectPlusColumns | None:
    n, m = matrix.shape
    wide = np.flatnonzero(2 * np.bincount(matrix.indices, minlength=m) > n)
    if not 0 < len(wide) <= MAX_SHARED_COLUMNS:
        return None
    in_narrow = ~np.isin(matrix.indices, wide)
    per_row = np.diff(np.concatenate([[0], np.cumsum(in_narrow)])[matrix.indptr])
    if not (per_row == 1).all():
        return None
    shared = []
    for column in wide:
        has = np.zeros(n, dtype=bool)
        has[np.searchsorted(matrix.indptr, np.flatnonzero(matrix.indices == column), side="right") - 1] = True
        shared.append((int(column), None if has.all() else has))
    return SelectPlusColumns(Select(matrix.indices[in_narrow]), tuple(shared))


def _diagonals(
    matrix: sparse.csr_array, diagonal_of: np.ndarray, offsets: np.ndarray
) -> tuple[tuple[int, np.ndarray | None], ...]:
    n, m = matrix.shape
    order = np.argsort(diagonal_of, kind="stable")
    diagonals = []
    by_offset = np.split(order, np.searchsorted(diagonal_of[order], offsets[1:]))
    for offset, edges in zip(offsets.tolist(), by_offset, strict=True):
        entries = None
        full_length = min(n, m - offset) - max(0, -offset)
        if matrix.dtype != np.bool_ or len(edges) < full_length:
            entries = np.zeros(n)
            entries[matrix.indices[edges] - offset] = matrix.data[edges]
        diagonals.append((offset, entries))
    return tuple(diagonals)


def _ceil_power_of_two(degree: np.ndarray) -> np.ndarray:
    exponent = np.ceil(np.log2(np.maximum(degree, 1))).astype(np.int64)
    return np.where(degree > 0, 1 << exponent, 0)


def _padded_size(degree: np.ndarray) -> int:
    return int(_ceil_power_of_two(degree).sum())


def _pad(matrix: sparse.csr_array, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    degree = np.diff(matrix.indptr)[rows]
    slot = np.arange(degree.max(initial=0))
    exists = slot < degree[:, None]
    edge = np.where(exists, matrix.indptr[rows][:, None] + slot, 0)
    columns = np.where(exists, matrix.indices[edge] if matrix.nnz else 0, 0).astype(np.int32)
    if matrix.dtype == np.bool_ and exists.all():
        return columns, None
    return columns, np.where(exists, matrix.data[edge] if matrix.nnz else 0, 0).astype(np.float64)
