"""Discovery: the score test against its product of matrices, and group testing against one factor at a time."""

from collections.abc import Iterator

import numpy as np

from factorax.discovery import Batch, intervene, score_test
from factorax.problems.traffic import lanes

from .timing import Row, at_most, medians

HORIZON, TRIALS = 60, 20


def rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    z, psi = rng.normal(size=(10_000, 1000)), rng.normal(size=(10_000, 1000))
    batch = Batch(z, psi)
    ours, product = medians(lambda: score_test(batch).found(), lambda: z.T @ psi, repeats=5)
    yield at_most("score test, n = m = 1000, 10⁴ samples, FDR included", ours, product, "Zᵀ Ψ", 2.0)
    problem = lanes(10, 10, norm="fixed", initial="everywhere", horizon=HORIZON)
    corridor = problem.influence("corridor")
    apart = TRIALS * (problem.network.shape[0] + 1) * HORIZON
    for what, start, bound in (("edges that the corridors lack", corridor, 5.0), ("all edges, from none", None, 0.0)):
        found = intervene(problem, horizon=HORIZON, trials=TRIALS, one_step=False, start=start)
        outside = int((found.found() & ~corridor.to_dense()).sum())
        if outside:
            raise AssertionError(f"{outside} edges outside the corridors")
        yield Row(
            f"interventions on 10×10 lights, {TRIALS} episodes a pair, {what}",
            f"{found.steps:,} steps",
            f"{apart:,} steps, one light at a time",
            apart / found.steps,
            f"≥ {bound:.2f}×" if bound else "–",
            apart >= bound * found.steps,
        )
