import warnings

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from scipy import sparse
from strategies import matrices, networks, quietly

from factorax import InfluenceNetwork
from factorax.structure import StructureWarning, gallery
from factorax.structure.patterns import banded, block

HARD = np.array([[1, 0, 1], [0, 1, 1]])
SOFT = np.array([[1, 0, 0.25], [0, 0.5, 1]])


def unsorted_with_zeros(matrix):
    """The same matrix in CSR with every entry stored, zeros too, each row from right to left."""
    n, m = matrix.shape
    columns = np.tile(np.arange(m)[::-1], n)
    return sparse.csr_array((matrix[:, ::-1].ravel(), columns, np.arange(n + 1) * m), matrix.shape)


def with_long_indices(matrix):
    csr = sparse.csr_array(matrix)
    csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    return csr


WAYS = {
    "nested lists": lambda k: k.tolist(),
    "nested tuples": lambda k: tuple(map(tuple, k.tolist())),
    "float": lambda k: k.astype(float),
    "columns first": np.asfortranarray,
    "a view": lambda k: np.repeat(k, 2, axis=1)[:, ::2],
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
    "coo": sparse.coo_array,
    "lil": sparse.lil_array,
    "dok": sparse.dok_array,
    "csr_matrix": sparse.csr_matrix,
    "unsorted": unsorted_with_zeros,
    "64-bit indices": with_long_indices,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("matrix", [HARD, SOFT, np.array([[1]])], ids=["hard", "soft", "1x1"])
def test_every_way_of_giving_a_matrix_gives_the_same_network(way, matrix):
    net, expected = InfluenceNetwork(way(matrix)), InfluenceNetwork(matrix)
    assert net == expected
    assert hash(net) == hash(expected)
    np.testing.assert_array_equal(net.to_dense(), matrix)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.uint64, np.float32, np.longdouble])
def test_noughts_and_ones_of_any_type_make_a_boolean_network(dtype):
    for matrix in (HARD.astype(dtype), sparse.csr_array(HARD.astype(dtype))):
        net = InfluenceNetwork(matrix)
        assert net.matrix.dtype == np.bool_
        assert not net.is_soft
        assert net == InfluenceNetwork(HARD)


def test_half_precision_is_taken():
    assert InfluenceNetwork(HARD.astype(np.float16)) == InfluenceNetwork(HARD)
    assert InfluenceNetwork(SOFT.astype(np.float16)) == InfluenceNetwork(SOFT)


def test_weights_in_between_make_a_soft_network():
    net = InfluenceNetwork(SOFT.astype(np.float32))
    assert net.is_soft
    assert net.matrix.dtype == np.float64
    assert net == InfluenceNetwork(SOFT)


@quietly
@given(matrices())
def test_the_matrix_is_kept_exactly_sorted_and_without_stored_noughts(matrix):
    csr = InfluenceNetwork(matrix).matrix
    assert csr.toarray().astype(float).tobytes() == (matrix + 0.0).tobytes()
    assert csr.nnz == np.count_nonzero(matrix)
    assert csr.has_sorted_indices
    assert csr.data.all()


@pytest.mark.parametrize(
    "twice",
    [
        sparse.coo_array(([True, True, True], ([0, 0, 0], [1, 0, 1])), (1, 2)),
        sparse.csr_array(([True, True, True], [1, 0, 1], [0, 3]), (1, 2)),
    ],
)
def test_an_edge_given_twice_to_a_boolean_matrix_is_one_edge(twice):
    net = InfluenceNetwork(twice)
    assert net.n_edges == 2
    assert net == InfluenceNetwork([[1, 1]])


def test_negative_nought_is_nought():
    assert InfluenceNetwork([[-0.0, 0.5], [1, -0.0]]) == InfluenceNetwork([[0, 0.5], [1, 0]])


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (1.0, "two dimensions"),
        ([1, 0], "two dimensions"),
        (np.ones((2, 2, 2)), "two dimensions"),
        (sparse.coo_array(np.array([1.0, 0.0])), "two dimensions"),
        ([[]], "at least one action"),
        (sparse.csr_array((3, 0)), "at least one action"),
        ([[1, 0], [1]], "rows of different lengths"),
        (sparse.csr_array([[np.nan, 2.0]]), "holds the weight nan"),
        ([[0.5, 1.5, -0.1]], "holds the weight 1.5"),
        ([[0.5, -2, 1.5]], "holds the weight -2"),
        ([[np.inf]], "holds the weight inf"),
        (np.array([[1, 2]], dtype=np.uint8), "holds the weight 2"),
        (sparse.csr_array(np.array([[1, 2]], dtype=np.uint8)), "holds the weight 2"),
    ],
)
def test_an_invalid_matrix_is_refused(matrix, message):
    with pytest.raises(ValueError, match=f"matrix: .*{message}"):
        InfluenceNetwork(matrix)


@pytest.mark.parametrize(
    "matrix", [sparse.csr_array([[1j]]), [["1"]], [[None]], [[1j]], np.array([["2020-01-01"]], "M8[D]")]
)
def test_a_matrix_of_other_things_than_numbers_is_refused(matrix):
    with pytest.raises(TypeError, match="matrix: got entries of type"):
        InfluenceNetwork(matrix)


def test_the_matrix_is_read_only():
    net = InfluenceNetwork(HARD)
    for array in (net.matrix.data, net.matrix.indices, net.matrix.indptr):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sparse.SparseEfficiencyWarning)
        for cell in ((0, 0), (0, 1)):  # an edge that is there, and one that is not
            with pytest.raises(ValueError, match="read-only"):
                net.matrix[cell] = True
    np.testing.assert_array_equal(net.to_dense(), HARD)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, sparse.coo_array, unsorted_with_zeros, np.array])
@pytest.mark.parametrize("matrix", [HARD.astype(bool), SOFT], ids=["hard", "soft"])
def test_the_callers_matrix_is_neither_changed_nor_shared(kind, matrix):
    mine = kind(matrix)
    before = mine.copy()
    net = InfluenceNetwork(mine)
    parts = ["data", *(name for name in ("indices", "indptr", "row", "col") if hasattr(mine, name))]
    for name in parts if sparse.issparse(mine) else []:
        np.testing.assert_array_equal(getattr(mine, name), getattr(before, name))
        assert getattr(mine, name).flags.writeable
    (mine.data if sparse.issparse(mine) else mine)[:] = 0
    np.testing.assert_array_equal(net.to_dense(), matrix)


def test_the_dense_matrix_is_the_callers_to_change():
    net = InfluenceNetwork(HARD)
    net.to_dense()[:] = False
    np.testing.assert_array_equal(net.to_dense(), HARD)


WITHOUT_TARGETS = r"^action 'fan', 'lamp' influences no target, so its gradient is zero$"


WITHOUT_ACTIONS = r"^target 'noise', 'rain' is influenced by no action, so it has no effect on learning$"


def test_actions_without_targets_are_warned_of_by_name():
    with pytest.warns(StructureWarning, match=WITHOUT_TARGETS) as record:
        InfluenceNetwork([[0], [1], [0]], actions=["fan", "heat", "lamp"])
    assert len(record) == 1
    assert record[0].filename == __file__


def test_targets_without_actions_are_warned_of_by_name():
    with pytest.warns(StructureWarning, match=WITHOUT_ACTIONS) as record:
        InfluenceNetwork.from_edges([("heat", "bill")], targets=["noise", "bill", "rain"])
    assert len(record) == 1


def test_selection_and_intersection_warn_of_what_they_cut_off():
    net = InfluenceNetwork([[1, 0], [1, 1]])
    with pytest.warns(StructureWarning, match="target 'psi2'"):
        net.select(actions=["a1"])
    with pytest.warns(StructureWarning, match="action 'a1'"):
        net & InfluenceNetwork([[0, 1], [1, 1]])


def test_blocks_come_apart_into_components():
    parts = block([(2, 1), (1, 3)]).components()
    assert [part.shape for part in parts] == [(2, 1), (1, 3)]
    assert [part.actions for part in parts] == [("a1", "a2"), ("a3",)]
    assert all(part.density == 1 for part in parts)


@pytest.mark.slow
def test_many_blocks_come_apart_too():
    parts = block([(1, 1), (2, 1)] * 10_000).components()
    assert len(parts) == 20_000
    assert [parts[k].actions for k in (0, 1, 2, -1)] == [("a1",), ("a2", "a3"), ("a4",), ("a29999", "a30000")]
    assert [parts[k].targets for k in (0, 1, 2, -1)] == [("psi1",), ("psi2",), ("psi3",), ("psi20000",)]


@quietly
@given(networks())
def test_components_are_those_of_the_graph_and_lose_no_edge(net):
    parts = net.components()
    graph = net.to_networkx().to_undirected()
    graph.remove_nodes_from(list(nx.isolates(graph)))
    expected = {frozenset(c) for c in nx.connected_components(graph)}
    assert {frozenset(part.actions + part.targets) for part in parts} == expected
    assert sorted(edge for part in parts for edge in (e[:2] for e in part.edges())) == sorted(
        e[:2] for e in net.edges()
    )


def literal_coparent_condition(dense):
    """Every co-parent l of i, an action that shares a target with i, has N(l) ⊆ N(i); and no edge of i is soft."""
    targets = [set(np.flatnonzero(row)) for row in dense]
    return [
        all(other <= mine for other in targets if other & mine) and not ((row > 0) & (row < 1)).any()
        for mine, row in zip(targets, dense, strict=True)
    ]


@given(networks(max_size=5))
def test_coparent_condition_is_its_definition(net):
    np.testing.assert_array_equal(net.coparent_condition(), literal_coparent_condition(net.to_dense()))


@pytest.mark.parametrize(
    ("net", "expected"),
    [
        (InfluenceNetwork.identity(4), [True] * 4),
        (InfluenceNetwork.complete(2, 3), [True] * 2),
        (block([(2, 1), (1, 2), (2, 2)]), [True] * 5),
        (gallery.fork(), [True]),
        (gallery.collider(), [True, True]),
        (gallery.fork_collider(), [True, False]),
        (gallery.three_actions(), [False] * 3),
        (banded(3, 1), [False, True, False]),
        (banded(5, 1), [False] * 5),
        (gallery.search_bandit(4), [False] * 4),
        (gallery.search_bandit(4, 3), [False, False, False, True]),
        (gallery.search_bandit(4, 1), [True] * 4),
        (gallery.search_bandit(4, 0), [True] * 4),
        (InfluenceNetwork([[1, 0.5], [1, 1]]), [False, True]),
        (InfluenceNetwork([[0.5]]), [False]),
    ],
)
def test_coparent_condition_of_known_networks(net, expected):
    assert net.coparent_condition().tolist() == expected
