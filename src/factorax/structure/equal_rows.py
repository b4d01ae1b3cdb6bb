"""Equal rows of a sparse matrix, in time linear in the number of its entries."""

import numpy as np
from scipy import sparse

# Edges hashed and compared at a time: working sets stay in cache, and memory use does not grow with the network.
HASH_CHUNK = 1 << 18
COMPARE_CHUNK = 1 << 16


def group_equal_rows(matrix: sparse.csr_array) -> np.ndarray:
    """Return the group number of every row, equal rows together, groups numbered by first appearance.

    Rows are compared by a 64-bit hash. Rows with equal hashes are then compared entry by entry, and if two different
    rows have the same hash, the search is repeated with another hash function. `matrix` has sorted indices and no
    stored zeros.
    """
    # Why hashes: sorting the rows themselves would compare them entry by entry log(rows) times. With 10⁷ edges, hashing
    # takes a third of the time, finding equal hashes a quarter, and the comparison of rows with equal hashes the rest.
    for salt in range(64):
        twin = _first_equal(_hash_rows(matrix, salt))
        if _rows_equal(matrix, twin):
            new_groups = np.cumsum(twin == np.arange(len(twin)))
            return new_groups[twin] - 1
    raise RuntimeError("matrix: 64 hash functions in a row collided; please report this influence matrix")


def _hash_rows(matrix: sparse.csr_array, salt: int) -> np.ndarray:
    """Return for every row the sum modulo 2⁶⁴ of the hashes of its (column, entry) pairs, in any order."""
    indptr, n_rows = matrix.indptr, matrix.shape[0]
    hashes = np.zeros(n_rows, dtype=np.uint64)
    row = 0
    while row < n_rows:
        # As many complete rows as fit into a chunk, and at least one.
        # The end has the type of indptr, which searchsorted would otherwise convert.
        end = indptr.dtype.type(min(int(indptr[row]) + HASH_CHUNK, int(indptr[-1])))
        stop = max(row + 1, int(np.searchsorted(indptr, end, side="right")) - 1)
        edges = slice(indptr[row], indptr[stop])
        key = matrix.indices[edges].astype(np.uint64)
        if matrix.dtype != np.bool_:
            key += _mix(matrix.data[edges].astype(np.float64).view(np.uint64))
        key += np.uint64(salt * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF)
        starts = indptr[row:stop] - indptr[row]
        filled = np.flatnonzero(indptr[row + 1 : stop + 1] > indptr[row:stop])  # reduceat misreads empty rows
        if filled.size:
            hashes[row + filled] = np.add.reduceat(_mix(key), starts[filled])
        row = stop
    return hashes


def _mix(x: np.ndarray) -> np.ndarray:
    """Apply the finaliser of SplitMix64 in place: a bijection of 64-bit words without visible structure."""
    x += np.uint64(0x9E3779B97F4A7C15)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def _first_equal(hashes: np.ndarray) -> np.ndarray:
    """Return for every hash the index of the first that equals it."""
    # NumPy sorts numbers ten times as fast as their indices. Therefore, the last bits of each number are its index, and
    # hashes that are equal in the other bits are compared afterwards.
    n = len(hashes)
    index_bits = np.uint64(n.bit_length())
    index_mask = (np.uint64(1) << index_bits) - np.uint64(1)
    numbers = hashes & ~index_mask
    numbers |= np.arange(n, dtype=np.uint64)
    numbers.sort()
    order = (numbers & index_mask).astype(np.intp)
    numbers >>= index_bits
    starts = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]]))
    first = np.empty(n, np.intp)
    first[order] = np.repeat(order[starts], np.diff(starts, append=n))
    rest = np.flatnonzero(hashes != hashes[first])
    if rest.size:
        _, first_index, group_of = np.unique(hashes[rest], return_index=True, return_inverse=True)
        first[rest] = rest[first_index[group_of]]
    return first


def _rows_equal(matrix: sparse.csr_array, twin: np.ndarray) -> bool:
    """Return whether every row i equals row ``twin[i]``."""
    indptr = matrix.indptr
    degree = np.diff(indptr)
    if not np.array_equal(degree, degree[twin]):
        return False
    rows = np.flatnonzero((twin != np.arange(len(twin))) & (degree > 0))
    count, begins = degree[rows], indptr[twin[rows]]
    # One chunk of rows at a time, so that memory grows with the chunk and the number of rows, not with that of edges.
    ends = np.cumsum(count, dtype=np.int64)
    to_entry, to_twin = indptr[rows] - (ends - count), begins - indptr[rows]
    start = 0
    while start < len(rows):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + COMPARE_CHUNK, side="right")))
        of_row = count[start:stop]
        mine = np.arange(before, ends[stop - 1]) + np.repeat(to_entry[start:stop], of_row)
        theirs = mine + np.repeat(to_twin[start:stop], of_row)
        # Twins are anywhere in memory. Fetching the ends of all first brings them to the cache: the processor waits for
        # many of these at the same time, but for only a few rows of the comparison.
        for ends_of_twins in (begins[start:stop], begins[start:stop] + of_row - 1):
            matrix.indices.take(ends_of_twins)
        if not np.array_equal(matrix.indices[mine], matrix.indices[theirs]):
            return False
        if matrix.dtype != np.bool_ and not np.array_equal(matrix.data[mine], matrix.data[theirs]):
            return False
        start = stop
    return True
