"""credit and factor_baseline: every form against the dense product, three array libraries against each other."""

from functools import cache

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from strategies import networks

import factorax as fx
from factorax.structure import forms

RNG = np.random.default_rng(0)


def of_form(matrix, expected):
    net = fx.InfluenceNetwork(matrix)
    assert type(net.form) is expected, f"{matrix} has form {net.form}"
    return net


def sparse_rows(n, m, degrees):
    matrix = np.zeros((n, m), dtype=bool)
    for i in range(n):
        matrix[i, RNG.choice(m, degrees[i % len(degrees)], replace=False)] = True
    matrix[np.arange(m) % n, np.arange(m)] = True
    return matrix


FORMS = {
    "ones": of_form(np.ones((3, 5)), forms.Ones),
    "identity": of_form(np.eye(4), forms.Select),
    "permutation": of_form(np.eye(4)[[2, 0, 3, 1]], forms.Select),
    "identity + column": of_form(np.hstack([np.eye(5), np.ones((5, 1))]), forms.SelectPlusColumns),
    "identity + part of a column": of_form(np.hstack([np.eye(5), np.tri(5, 1, -2)]), forms.SelectPlusColumns),
    "permutation + columns": of_form(np.hstack([np.ones((4, 2)), np.eye(4)[[1, 0, 3, 2]]]), forms.SelectPlusColumns),
    "diagonals": of_form(fx.patterns.banded(64, 2).matrix, forms.Diagonals),
    "diagonals, broken": of_form(fx.patterns.k_hop(nx.grid_2d_graph(9, 8), 1).matrix, forms.Diagonals),
    "diagonals, soft, wide": of_form(np.eye(60, 90, 30) + 0.5 * np.eye(60, 90, 9) + np.eye(60, 90), forms.Diagonals),
    "diagonals, tall": of_form(np.eye(90, 60, 2) + np.eye(90, 60, -31) + np.eye(90, 60, -3) > 0, forms.Diagonals),
    "sparse": of_form(sparse_rows(300, 300, [4]), forms.Sparse),
    "sparse, uneven rows": of_form(sparse_rows(300, 300, [1, 1, 1, 1, 9, 1, 40]), forms.Sparse),
    "sparse, soft": of_form(sparse_rows(300, 300, [3, 7]) * RNG.uniform(0.1, 0.9, size=(300, 300)), forms.Sparse),
    "dense": of_form(RNG.random((7, 6)) < 0.5, forms.Dense),
    "dense, soft": of_form(RNG.random((7, 6)), forms.Dense),
}  # fmt: skip


def dense(net, psi, lam=None):
    """K @ (λ ∘ ψ), spelt out, in double precision."""
    x = psi if lam is None else lam * psi
    return np.asarray(x, dtype=np.float64) @ net.to_dense().astype(np.float64).T


def tolerance(net, psi, dtype):
    """Rounding of a sum, relative to the sum of magnitudes."""
    return 8 * np.finfo(dtype).eps * np.abs(psi).sum(axis=-1).max() * np.log2(net.shape[1] + 2)


def both(net, psi, lam):
    return fx.credit(net, psi, lam), fx.factor_baseline(net, psi)


@cache
def drawn_and_computed(dtype, batch):
    """Targets and weights for every form, and its results in JAX, from one program: one for each would take as long as
    all other tests of this file."""
    drawn = {
        name: [RNG.normal(size=(*shape, net.shape[1])).astype(dtype) for shape in (batch, ())]
        for name, net in FORMS.items()
    }
    return drawn, jax.jit(lambda drawn: {name: both(FORMS[name], *each) for name, each in drawn.items()})(drawn)


@pytest.mark.parametrize("batch", [*(pytest.param(b, marks=pytest.mark.slow) for b in ((), (3,))), (2, 3)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FORMS)
def test_every_form_equals_the_dense_product(name, dtype, batch):
    net = FORMS[name]
    with jax.enable_x64(dtype == np.float64):
        drawn, computed = drawn_and_computed(dtype, batch)
        psi, lam = drawn[name]
        for (got, baseline), array in ((both(net, psi, lam), np.ndarray), (computed[name], jax.Array)):
            assert isinstance(got, array)
            assert got.shape == (*batch, net.shape[0])
            assert got.dtype == dtype
            np.testing.assert_allclose(got, dense(net, psi, lam), atol=tolerance(net, lam * psi, dtype), rtol=0)
            np.testing.assert_allclose(
                baseline,
                psi.astype(np.float64).sum(axis=-1, keepdims=True) - dense(net, psi),
                atol=2 * tolerance(net, psi, dtype),
                rtol=0,
            )


@pytest.mark.slow
@given(networks(), st.integers(0, 2**31))
def test_random_networks_equal_the_dense_product(net, seed):
    psi, lam = np.random.default_rng(seed).normal(size=(2, net.shape[1]))
    with jax.enable_x64(True):
        np.testing.assert_allclose(fx.credit(net, psi, lam), dense(net, psi, lam), atol=1e-12)
        np.testing.assert_allclose(fx.credit(net, jnp.asarray(psi), lam), dense(net, psi, lam), atol=1e-12)


@pytest.mark.filterwarnings("ignore::factorax.structure.StructureWarning")
@given(networks(), st.randoms(use_true_random=False))
def test_credit_commutes_with_permutations(net, random):
    n, m = net.shape
    rows, columns = random.sample(range(n), n), random.sample(range(m), m)
    permuted = net.select([net.actions[i] for i in rows], [net.targets[j] for j in columns])
    psi = np.linspace(-1, 1, m)
    np.testing.assert_allclose(fx.credit(permuted, psi[columns]), fx.credit(net, psi)[rows], atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("net", FORMS.values(), ids=FORMS.keys())
def test_credit_under_jit_vmap_and_grad(net):
    psi = jnp.asarray(RNG.normal(size=(4, net.shape[1])), dtype=jnp.float32)
    plain = fx.credit(net, psi)
    atol = tolerance(net, np.asarray(psi), np.float32)
    np.testing.assert_allclose(jax.jit(lambda x: fx.credit(net, x))(psi), plain, atol=atol)
    np.testing.assert_allclose(jax.jit(jax.vmap(lambda x: fx.credit(net, x)))(psi), plain, atol=atol)
    static = jax.jit(fx.credit, static_argnums=0)
    np.testing.assert_allclose(static(net, psi), plain, atol=atol)
    w = jnp.asarray(RNG.normal(size=net.shape[0]), dtype=jnp.float32)
    gradient = jax.jit(jax.grad(lambda x: fx.credit(net, x) @ w))(psi[0])
    np.testing.assert_allclose(gradient, np.asarray(w, dtype=np.float64) @ net.to_dense(), atol=1e-3)


@pytest.mark.parametrize("name", ["diagonals", "identity + column", "sparse"])
def test_a_target_that_a_factor_does_not_influence_never_touches_its_credit(name):
    """Not even by rounding: 1e9 beside 1e-3, in single precision."""
    net = FORMS[name]
    psi = np.full(net.shape[1], 1e-3, dtype=np.float32)
    j = net.shape[1] // 2
    outside = ~net.to_dense()[:, j]
    assert outside.any()
    for apply in (lambda psi: fx.credit(net, psi), jax.jit(lambda psi: fx.credit(net, psi))):
        calm = np.asarray(apply(psi))
        loud = np.asarray(apply(np.where(np.arange(len(psi)) == j, np.float32(1e9), psi)))
        np.testing.assert_array_equal(loud[outside], calm[outside])


def test_equal_networks_share_a_compiled_program():
    traces = []

    @jax.jit
    def count(x):
        traces.append(1)
        return fx.credit(FORMS["dense"], x)

    count(jnp.ones(6))
    count(jnp.zeros(6))
    assert len(traces) == 1
    assert hash(fx.InfluenceNetwork.identity(3)) == hash(fx.InfluenceNetwork(np.eye(3)))


@pytest.mark.parametrize("name", FORMS)
def test_the_result_can_be_written_to_and_shares_no_memory_with_the_targets(name):
    psi = np.ones((2, FORMS[name].shape[1]))
    out = fx.credit(FORMS[name], psi)
    out[0] += 1
    assert (out[0] == out[1] + 1).all()
    np.testing.assert_array_equal(psi, 1.0)


def test_weights_may_have_batch_axes():
    net, psi = FORMS["dense"], RNG.normal(size=(5, 3, 6))
    lam = RNG.normal(size=(3, 6))
    np.testing.assert_allclose(fx.credit(net, psi, lam), dense(net, psi, lam), atol=1e-12)


def test_integers_and_lists_become_floats():
    net = fx.InfluenceNetwork([[1, 1], [0, 1]])
    np.testing.assert_array_equal(fx.credit(net, [10, 1]), [11.0, 1.0])
    assert fx.credit(net, np.array([10, 1])).dtype == np.float64
    assert fx.credit(net, jnp.array([True, False])).dtype == jnp.float32


def test_credit_of_ten_million_actions_needs_no_matrix():
    net = fx.InfluenceNetwork.complete(10**7, 3)
    out = fx.credit(net, np.array([1.0, 2.0, 3.0]))
    assert out.shape == (10**7,)
    assert out[123] == 6.0


def test_rows_and_columns_without_edges():
    matrix = sparse_rows(300, 300, [4, 2])
    matrix[7], matrix[:, 9] = False, False
    with pytest.warns(fx.structure.StructureWarning):
        net = fx.InfluenceNetwork(matrix)
    psi = RNG.normal(size=300)
    np.testing.assert_allclose(fx.credit(net, psi), dense(net, psi), atol=1e-12)
    assert jax.jit(lambda psi: fx.credit(net, psi))(psi)[7] == 0
    with pytest.warns(fx.structure.StructureWarning):
        nothing = fx.InfluenceNetwork(sparse.csr_array((2, 3), dtype=bool))
    np.testing.assert_array_equal(fx.credit(nothing, jnp.ones((4, 3))), np.zeros((4, 2)))


class TestBadInput:
    net = fx.InfluenceNetwork([[1, 1, 0], [0, 1, 1]])

    @pytest.mark.parametrize("shape", [(2,), (3, 1), (3, 2), (4, 5), ()])
    def test_targets_of_the_wrong_length_are_never_broadcast(self, shape):
        for psi in (np.ones(shape), jnp.asarray(np.ones(shape))):
            with pytest.raises(ValueError, match=r"psi: got .* want \(\.\.\., 3\)"):
                fx.credit(self.net, psi)

    @pytest.mark.parametrize("shape", [(2,), (), (1,), (3, 1)])
    def test_weights_of_the_wrong_length_are_never_broadcast(self, shape):
        with pytest.raises(ValueError, match=r"weights: got .* want \(3,\)"):
            fx.credit(self.net, np.ones(3), np.ones(shape))

    def test_weights_with_other_batch_axes_are_refused(self):
        with pytest.raises(ValueError, match=r"weights: got shape \(4, 3\), want batch axes that broadcast"):
            fx.credit(self.net, np.ones((5, 3)), np.ones((4, 3)))
        with pytest.raises(ValueError, match=r"weights: got shape \(4, 3\), want batch axes that broadcast"):
            fx.credit(self.net, np.ones(3), np.ones((4, 3)))

    def test_weights_of_another_array_library_are_refused(self):
        with pytest.raises(TypeError, match="weights: got ArrayImpl with psi a ndarray; want one array library"):
            fx.credit(self.net, np.ones(3), jnp.ones(3))
        assert fx.credit(self.net, jnp.ones(3, dtype=jnp.bfloat16), jnp.ones(3)).dtype == jnp.bfloat16

    def test_networks_without_a_fixed_k_are_refused(self):
        lagged, state = fx.LaggedNetwork.from_lags([[0, 1, -1], [-1, 0, 2]]), fx.StateNetwork(lambda *_: 0, self.net)
        for net in (fx.NetworkSchedule(self.net, self.net, steps=3), lagged, state, fx.AdaptiveNetwork(self.net)):
            for function in (fx.credit, fx.factor_baseline):
                with pytest.raises(TypeError, match=type(net).__name__):
                    function(net, np.ones(3))

    def test_a_matrix_is_accepted_as_network(self):
        matrix, psi = [[1, 1, 0], [0, 0.5, 1]], np.array([1.0, 2.0, 4.0])
        for k in (matrix, np.array(matrix), jnp.array(matrix), sparse.csr_array(matrix)):
            np.testing.assert_array_equal(fx.credit(k, psi), [3, 5])
            np.testing.assert_array_equal(fx.factor_baseline(k, psi), [4, 2])
        with pytest.raises(TypeError, match=r"net: got an array that is traced by JAX.*pass a KArray to credit\(\)"):
            jax.jit(fx.credit)(jnp.eye(3), psi)
