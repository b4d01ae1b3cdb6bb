"""`credit` on the host against SciPy, a copy and a sum; in a compiled loop against the all-ones sum."""

from collections.abc import Iterator
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

import factorax as fx

from .timing import Row, at_least, at_most, medians

STEPS = 5_000


def random_network(n: int, m: int, edges: int, seed: int = 0) -> sparse.csr_array:
    """Return about `edges` random edges, with at least one per row and column."""
    rng = np.random.default_rng(seed)
    each = edges // n - 1
    rows = np.concatenate([np.repeat(np.arange(n), each), np.arange(n)])
    columns = np.concatenate([rng.integers(0, m, size=n * each), rng.permutation(n) % m])
    matrix = sparse.csr_array((np.ones(len(rows)), (rows, columns)), (n, m))
    matrix.data[:] = 1.0
    return matrix


def on_the_host() -> Iterator[Row]:
    n = 10**6
    rng = np.random.default_rng(1)
    psi, lam = rng.random(n), rng.random(n)
    matrix = random_network(n, n, 10**7)
    net = fx.InfluenceNetwork(matrix)
    # Networks have indices of 32 bits. With 64, SciPy's product is faster on some processors and slower on others.
    narrow, wide = net.matrix.astype(float), matrix
    ours, *theirs = medians(lambda: fx.credit(net, psi, lam), lambda: narrow @ (lam * psi), lambda: wide @ (lam * psi))
    name = f"credit, NumPy, n = m = 10⁶, {net.n_edges:,} edges"
    yield at_most(name, ours, theirs[0], "SciPy CSR @", 1.10)
    yield replace(at_most(name, ours, theirs[1], "the same, indices of 64 bits", 1.0), bound="–", kept=True)
    identity, ones = fx.InfluenceNetwork.identity(n), fx.InfluenceNetwork.complete(n, n)
    ours, copy = medians(lambda: fx.credit(identity, psi), psi.copy, repeats=51)
    yield at_most("credit, NumPy, identity, n = 10⁶", ours, copy, "array copy", 1.30)
    ours, total = medians(lambda: fx.credit(ones, psi), lambda: np.full(n, psi.sum()), repeats=51)
    yield at_most("credit, NumPy, all ones, n = m = 10⁶", ours, total, "array sum, written for each action", 1.30)


def in_a_compiled_loop() -> Iterator[Row]:
    n = 1000
    coupled = fx.structure.gallery.search_bandit(n)
    nets = {
        "all ones": fx.InfluenceNetwork.complete(n, n + 1),
        "identity + column": coupled,
        "banded, width 2": fx.patterns.banded(n, 2),
        "banded, width 80": fx.patterns.banded(n, 80),
        "dense, random half": fx.InfluenceNetwork(np.random.default_rng(0).random((n, n)) < 0.5),
    }
    runs = {name: compiled_loop(net) for name, net in nets.items()}
    seconds = dict(zip(nets, medians(*runs.values(), repeats=9), strict=True))
    base = STEPS / seconds["all ones"]
    for name, taken in seconds.items():
        if name == "all ones":
            continue
        bound = 0.7 if name == "identity + column" else 0.0
        row = at_least(
            f"scan of credit, n = {n}, {name} ({type(nets[name].form).__name__})",
            STEPS / taken,
            base,
            "all ones",
            bound,
        )
        yield row if bound else replace(row, bound="–", kept=True)


def compiled_loop(net: fx.InfluenceNetwork):
    """Return a scan in which each step applies K to targets that depend on the last credit."""
    m = net.shape[1]

    @jax.jit
    def run(psi: jax.Array) -> jax.Array:
        def step(psi: jax.Array, _: None) -> tuple[jax.Array, None]:
            k = fx.credit(net, psi)
            return 0.5 * psi + jnp.pad(k, (0, m - net.shape[0])) / m, None

        return jax.lax.scan(step, psi, None, length=STEPS)[0]

    start = jnp.ones(m, dtype=jnp.float32)
    return lambda: run(start).block_until_ready()


def rows() -> Iterator[Row]:
    yield from on_the_host()
    yield from in_a_compiled_loop()
