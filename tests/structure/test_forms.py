import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import matrices

from factorax import InfluenceNetwork, credit
from factorax.structure import forms, gallery
from factorax.structure.network import canonical
from factorax.structure.patterns import banded, block


def dense_of(form, m):
    """The matrix that a form stands for."""
    match form:
        case forms.Ones(n):
            return np.ones((n, m))
        case forms.Select(columns):
            return np.eye(m)[columns]
        case forms.SelectPlusColumns(own, shared):
            out = dense_of(own, m)
            for column, rows in shared:
                out[:, column] += 1 if rows is None else rows
            return out
        case forms.Diagonals(n, _, diagonals):
            out = np.zeros((n, m))
            for offset, weights in diagonals:
                rows = np.arange(max(0, -offset), min(n, m - offset))
                out[rows, rows + offset] = 1 if weights is None else weights[rows]
            return out
        case forms.Sparse():
            return dense_of_buckets(form, m)
        case forms.Dense(matrix):
            return matrix
    raise TypeError(form)


def dense_of_buckets(form, m):
    blocks = []
    for columns, weights in form.buckets:
        rows = np.zeros((len(columns), m))
        for i, d in np.ndindex(columns.shape):
            rows[i, columns[i, d]] += 1 if weights is None else weights[i, d]
        blocks.append(rows)
    joined = np.concatenate(blocks)
    return joined if form.order is None else joined[form.order]


def scattered(n, m, degrees, *, seed=0, low=1.0):
    """Each row with so many edges at random, of weights from `low` to 1."""
    rng = np.random.default_rng(seed)
    dense = np.zeros((n, m))
    for i in range(n):
        k = degrees[i % len(degrees)]
        dense[i, rng.choice(m, size=k, replace=False)] = rng.uniform(low, 1, size=k) if low < 1 else 1
    return dense


KNOWN = {
    "complete": (np.ones((3, 4)), forms.Ones),
    "1x1": ([[1]], forms.Ones),
    "identity": (np.eye(6), forms.Select),
    "permutation": (np.eye(6)[::-1], forms.Select),
    "many to one": (np.eye(3)[[0, 2, 2, 1, 0]], forms.Select),
    "search bandit": (gallery.search_bandit(9).to_dense(), forms.SelectPlusColumns),
    "search bandit, most share": (gallery.search_bandit(9, 6).to_dense(), forms.SelectPlusColumns),
    "identity and four columns": (np.hstack([np.eye(9), np.ones((9, 4))]), forms.SelectPlusColumns),
    "all but the identity": (1 - np.eye(500), forms.Dense),
    "nearly complete": (1 - scattered(200, 200, [0, 1, 2, 3]), forms.Dense),
    "blocks": (block([(50, 2), (50, 3)]).to_dense(), forms.Dense),
    "no edges": (np.zeros((4, 3)), forms.Sparse),
    "wide band": (banded(400, 100).to_dense(), forms.Dense),
    "narrow band": (banded(400, 1).to_dense(), forms.Diagonals),
    "torn band": (np.eye(400, k=-3) + np.eye(400) * (np.arange(400) % 5 > 0), forms.Diagonals),
    "band of a tall matrix": (np.eye(60, 40) + np.eye(60, 40, k=-30), forms.Diagonals),
    "band of a wide matrix": (np.eye(40, 60, k=1) + np.eye(40, 60, k=25), forms.Diagonals),
    "soft band": (np.eye(40) / 2 + np.eye(40, k=2), forms.Diagonals),
    "scattered": (scattered(300, 200, [2, 3]), forms.Sparse),
    "scattered, uneven": (scattered(300, 200, [1, 0, 2, 20]), forms.Sparse),
    "scattered, soft": (scattered(300, 200, [2, 3, 9], low=0.1), forms.Sparse),
    "soft identity": (np.eye(40) / 2, forms.Diagonals),
    "one empty row": ([[0, 0, 0]], forms.Sparse),
    "small": (scattered(12, 12, [5, 7]), forms.Dense),
    "soft and full": (np.linspace(0.1, 1, 30).reshape(5, 6), forms.Dense),
}


@pytest.mark.parametrize(("matrix", "form"), KNOWN.values(), ids=KNOWN)
def test_known_shapes_get_their_form_and_keep_their_matrix(matrix, form):
    chosen = forms.choose_form(canonical(matrix))
    assert type(chosen) is form
    np.testing.assert_array_equal(dense_of(chosen, np.shape(matrix)[1]), matrix)


@given(matrices(max_size=8))
def test_the_form_of_any_small_matrix_is_that_matrix(matrix):
    np.testing.assert_array_equal(dense_of(forms.choose_form(canonical(matrix)), matrix.shape[1]), matrix)


@given(st.integers(20, 90), st.integers(20, 90), st.floats(0, 1), st.booleans(), st.integers(0, 99))
def test_the_form_of_any_middling_matrix_is_that_matrix(n, m, density, soft, seed):
    rng = np.random.default_rng(seed)
    matrix = (rng.random((n, m)) < density) * (rng.uniform(0.1, 1, size=(n, m)) if soft else 1)
    np.testing.assert_array_equal(dense_of(forms.choose_form(canonical(matrix)), m), matrix)


@given(matrices(max_size=8))
def test_buckets_of_rows_hold_the_matrix(matrix):
    csr = canonical(matrix)
    np.testing.assert_array_equal(dense_of_buckets(forms.Sparse(csr), matrix.shape[1]), matrix)


def test_rows_of_like_degree_share_a_bucket():
    form = forms.Sparse(canonical(scattered(300, 200, [1, 0, 2, 40])))
    assert [columns.shape for columns, _ in form.buckets] == [(75, 40), (75, 2), (75, 1), (75, 0)]
    assert all(weights is None for columns, weights in form.buckets if columns.size)


def test_rows_of_one_degree_are_not_reordered_or_padded():
    form = forms.Sparse(canonical(scattered(30, 200, [3])))
    assert form.order is None
    ((columns, weights),) = form.buckets
    assert columns.shape == (30, 3)
    assert weights is None


def test_neighbouring_columns_are_one_slice():
    assert forms.Select(np.array([2, 3, 4])).run == slice(2, 5)
    assert forms.Select(np.array([2, 4, 3])).run is None
    assert forms.Select(np.array([1, 1])).run is None


def test_a_column_shared_by_all_needs_no_mask():
    (shared,) = forms.choose_form(gallery.search_bandit(9).matrix).shared
    assert shared == (9, None)
    column, rows = forms.choose_form(gallery.search_bandit(9, 6).matrix).shared[0]
    assert rows.tolist() == [True] * 6 + [False] * 3
    assert gallery.search_bandit(9, 6).targets[column] == "zeta"


def test_a_network_keeps_its_form():
    net = gallery.search_bandit(9)
    assert net.form is net.form


def test_a_huge_complete_network_has_a_form_without_a_matrix():
    assert InfluenceNetwork.complete(10**6, 10**6).form.n_rows == 10**6


@pytest.mark.parametrize("shape", [(40, 40), (60, 40), (40, 60)])
@pytest.mark.parametrize("offsets", [(0,), (-30, 5), (1, 25), (-9, -2)])
def test_every_diagonal_is_a_slice_of_the_padded_targets(shape, offsets):
    form = forms.Diagonals(*shape, tuple((offset, None) for offset in offsets))
    before, after = form.padding
    padded = np.pad(np.eye(shape[1]), ((before, after), (0, 0)))
    slices = [padded[before + offset :][: shape[0]] for offset in offsets]
    assert all(len(part) == shape[0] for part in slices)
    np.testing.assert_array_equal(sum(slices), dense_of(form, shape[1]))


def test_a_whole_diagonal_needs_no_weights():
    form = forms.choose_form(banded(400, 1).matrix)
    assert form.diagonals == ((-1, None), (0, None), (1, None))


def test_a_wide_soft_band_is_its_diagonals():
    distance = abs(np.arange(2000)[:, None] - np.arange(2000))
    dense = np.where(distance <= 90, 0.99**distance, 0)
    net = InfluenceNetwork(dense)
    assert isinstance(net.form, forms.Diagonals)
    assert [offset for offset, _ in net.form.diagonals] == list(range(-90, 91))
    psi = np.random.default_rng(0).normal(size=(3, 2000))
    np.testing.assert_allclose(credit(net, psi), psi @ dense.T, atol=1e-11)
