import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import sparse
from strategies import matrices, networks

from factorax import InfluenceNetwork
from factorax.structure import equal_rows
from factorax.structure.network import canonical


def by_first_appearance(keys):
    number = {}
    return [number.setdefault(key, len(number)) for key in keys]


def by_dictionary(matrix):
    return by_first_appearance(map(tuple, matrix.toarray().tolist()))


@given(networks())
def test_groups_are_those_of_a_dictionary_of_rows(net):
    assert equal_rows.group_equal_rows(net.matrix).tolist() == by_dictionary(net.matrix)


@given(matrices(max_size=8))
def test_chunks_of_any_size_give_the_same_groups(matrix):
    csr = canonical(matrix)
    with pytest.MonkeyPatch.context() as patch:
        for chunk in (1, 3, 7):
            patch.setattr(equal_rows, "HASH_CHUNK", chunk)
            patch.setattr(equal_rows, "COMPARE_CHUNK", chunk)
            assert equal_rows.group_equal_rows(csr).tolist() == by_dictionary(csr)


def test_twenty_thousand_rows_give_back_the_planted_twins():
    rng = np.random.default_rng(0)
    n, m, n_groups = 20_000, 500, 6_000
    columns = np.sort(rng.permuted(np.tile(np.arange(m), (n_groups, 1)), axis=1)[:, :6], axis=1)
    assert len(np.unique(columns, axis=0)) == n_groups
    planted = rng.integers(n_groups, size=n)
    shape = (n, m)
    for data in (np.ones(6 * n, dtype=bool), np.repeat(rng.choice([0.25, 0.5], size=n_groups)[planted], 6)):
        matrix = sparse.csr_array((data, columns[planted].ravel(), np.arange(n + 1) * 6), shape)
        sigma = InfluenceNetwork(matrix).minimum_factorisation()
        assert sigma.group_of.tolist() == by_first_appearance(planted.tolist())


# Small numbers, and numbers that differ in their last bits only, which are those where the sort has indices.
@given(st.lists(st.integers(0, 5) | st.integers(2**64 - 5, 2**64 - 1), min_size=1, max_size=40))
@example([4, 5, 4, 6, 5, 4])
@example([7])
def test_every_hash_is_paired_with_the_first_that_equals_it(numbers):
    first = equal_rows._first_equal(np.array(numbers, dtype=np.uint64))
    assert first.tolist() == [numbers.index(number) for number in numbers]


COLLIDING = {
    "different degrees": [[1, 0, 0], [1, 1, 0], [1, 0, 0]],
    "different targets": [[1, 1, 0], [0, 1, 1], [1, 1, 0]],
    "different weights": [[0.5, 1, 0], [0.25, 1, 0], [0.5, 1, 0]],
    "an empty row": [[0, 0, 0], [1, 1, 0], [0, 0, 0]],
}


@pytest.mark.parametrize("matrix", COLLIDING.values(), ids=COLLIDING)
def test_another_hash_is_drawn_when_different_rows_collide(matrix, monkeypatch):
    honest, salts = equal_rows._hash_rows, []

    def colliding(csr, salt):
        salts.append(salt)
        return np.zeros(csr.shape[0], dtype=np.uint64) if salt == 0 else honest(csr, salt)

    monkeypatch.setattr(equal_rows, "_hash_rows", colliding)
    assert equal_rows.group_equal_rows(canonical(matrix)).tolist() == [0, 1, 0]
    assert salts == [0, 1]


def test_hashes_that_always_collide_are_an_error_not_a_wrong_answer(monkeypatch):
    monkeypatch.setattr(equal_rows, "_hash_rows", lambda csr, salt: np.zeros(csr.shape[0], dtype=np.uint64))
    with pytest.raises(RuntimeError, match="collided"):
        equal_rows.group_equal_rows(canonical([[1, 0], [0, 1]]))


@pytest.mark.parametrize("size", [10, 100, 1000])
def test_every_edge_is_hashed_once_and_compared_at_most_once(size, monkeypatch):
    """The minimum factorisation takes time linear in the edges, and a sort of one hash for each row."""
    counts = {"hashed": 0, "compared": 0}
    mix, equal = equal_rows._mix, equal_rows._rows_equal

    def counting_mix(x):
        counts["hashed"] += x.size
        return mix(x)

    def counting_equal(matrix, twin):
        counts["compared"] += int(np.diff(matrix.indptr)[twin != np.arange(len(twin))].sum())
        return equal(matrix, twin)

    monkeypatch.setattr(equal_rows, "_mix", counting_mix)
    monkeypatch.setattr(equal_rows, "_rows_equal", counting_equal)
    rng = np.random.default_rng(size)
    matrix = sparse.csr_array(rng.random((size, 20)) < 0.5)
    matrix = sparse.csr_array(sparse.vstack([matrix, matrix]))
    assert len(set(equal_rows.group_equal_rows(matrix))) <= size
    assert counts["hashed"] == matrix.nnz
    assert matrix.nnz / 2 <= counts["compared"] <= matrix.nnz
