"""Discovery: the score test against its product of matrices, and group testing against one factor at a time."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from factorax.discovery import Batch, intervene, score_test
from factorax.problems.traffic import lanes

from .timing import Row, at_most, medians

HORIZON, TRIALS = 400, 40
"""The paper's episode; and in how many of them every pair without an edge is changed."""


def rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    z, psi = rng.normal(size=(10_000, 1000)), rng.normal(size=(10_000, 1000))
    batch = Batch(z, psi)
    ours, product = medians(lambda: score_test(batch).found(), lambda: z.T @ psi, repeats=5)
    yield at_most("score test, n = m = 1000, 10⁴ samples, FDR included", ours, product, "Zᵀ Ψ", 2.0)
    with jax.enable_x64(True):
        problem = lanes(10, 10, norm="fixed", initial="everywhere", horizon=HORIZON, dtype=jnp.float64)
        found = intervene(problem, horizon=HORIZON, trials=TRIALS, one_step=False)
    corridor = problem.influence("corridor").to_dense() > 0
    if (found.found() & ~corridor).any():
        raise AssertionError(f"{int((found.found() & ~corridor).sum())} edges outside the corridors")
    apart = TRIALS * (len(corridor) + 1) * HORIZON
    edges = f"{int(found.found().sum()):,} of {corridor.sum():,} edges"
    yield Row(
        f"interventions on 10×10 lights, {TRIALS} episodes a pair, from none to {edges}",
        f"{found.steps:,} steps",
        f"{apart:,} steps, one light at a time",
        apart / found.steps,
        "≥ 5.00×",
        apart >= 5 * found.steps,
    )
