"""`minimum_factorisation` of large networks: time linear in edges, memory bounded."""

import multiprocessing
import resource
import time
from collections.abc import Iterator

import numpy as np

import factorax as fx

from .bench_credit import random_network
from .timing import Row, at_most, cpu_medians, repeated


def planted(n: int, edges: int) -> fx.InfluenceNetwork:
    """Return a network whose second half of rows repeats the first."""
    half = random_network(n // 2, n // 2, edges // 2)
    rows = np.random.default_rng(0).permutation(np.tile(np.arange(n // 2), 2))
    return fx.InfluenceNetwork(half[rows])


def peak_memory(n: int, edges: int) -> float:
    """Return the peak memory in GB of a new process that builds and factorises a network."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_peak, (n, edges))


def _peak(n: int, edges: int) -> float:
    assert len(planted(n, edges).minimum_factorisation()) == n // 2
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def rows() -> Iterator[Row]:
    small, large = planted(10**5, 10**6), planted(10**6, 10**7)
    name = f"minimum factorisation, {small.n_edges:,} → {large.n_edges:,} edges, n 10⁵ → 10⁶; CPU time"

    def measure() -> Iterator[Row]:
        t_small, t_large = cpu_medians(small.minimum_factorisation, large.minimum_factorisation, repeats=5)
        yield at_most(name, t_large, t_small, "for a tenth", 13.0)

    yield from repeated(measure, runs=3, tolerance=0.05)
    start = time.perf_counter()
    memory = peak_memory(10**6, 10**7)
    yield Row(
        "  peak memory of the process, network included",
        f"{memory:.2f} GB",
        f"– ({time.perf_counter() - start:.0f} s in all)",
        memory / 2,
        "≤ 2 GB",
        memory <= 2,
    )
