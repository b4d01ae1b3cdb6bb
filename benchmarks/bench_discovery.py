"""Discovery: the score test compared with its matrix product, and group testing compared with one factor at a time."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from factorax_traffic import lanes
from factorax_traffic.lane_problem import LaneProblem

from factorax.discovery import Batch, intervene, score_test

from .timing import Row, at_most, medians

HORIZON = 400
"""Length of the paper's episodes."""
TRIALS = (40, 20)
"""Number of episodes in which each pair without an edge is changed."""


def rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    z, psi = rng.normal(size=(10_000, 1000)), rng.normal(size=(10_000, 1000))
    batch = Batch(z, psi)
    ours, product = medians(lambda: score_test(batch).found(), lambda: z.T @ psi, repeats=5)
    yield at_most("score test, n = m = 1000, 10⁴ samples, FDR included", ours, product, "Zᵀ Ψ", 2.0)
    with jax.enable_x64(True):
        problem = lanes(10, 10, norm="fixed", initial="everywhere", horizon=HORIZON, dtype=jnp.float64)
        for trials in TRIALS:
            yield group_testing(problem, trials)


def group_testing(problem: LaneProblem, trials: int) -> Row:
    """Return the steps to find the network of traffic lights, and those of one light at a time."""
    discovery = intervene(problem, horizon=HORIZON, trials=trials, one_step=False)
    edges, corridor = discovery.found(), problem.influence("corridor").to_dense() > 0
    if (edges & ~corridor).any():
        raise AssertionError(f"{int((edges & ~corridor).sum())} edges outside the corridors")
    apart = trials * (len(corridor) + 1) * HORIZON
    return Row(
        f"interventions on 10×10 lights, {trials} episodes a pair, from none to {int(edges.sum()):,} of "
        f"{corridor.sum():,} edges",
        f"{discovery.steps:,} steps",
        f"{apart:,} steps, one light at a time",
        apart / discovery.steps,
        "≥ 5.00×",
        apart >= 5 * discovery.steps,
    )
