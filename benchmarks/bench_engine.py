"""The bandit engine compared with a straightforward NumPy loop for the same update."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from factorax_paper.harness.bandit_engine import METHODS, BanditLearner, BanditMethod
from factorax_paper.harness.noise import gaussian_pair

from factorax.problems import draw_centre, search_bandit

from .timing import Row, at_least, at_most, medians

N = 1000
STEP_SIZE = 0.5


def numpy_loop(centre: np.ndarray, steps: int) -> np.ndarray:
    """Run FPG in optimised NumPy: single precision, its fastest generator, all results in place."""
    rng = np.random.Generator(np.random.SFC64(0))
    mu = np.zeros_like(centre)
    eps, work = np.empty_like(mu), np.empty_like(mu)
    factor = np.float32(-STEP_SIZE / centre.shape[-1])
    for _ in range(steps):
        rng.standard_normal(dtype=np.float32, out=eps)
        np.add(mu, eps, out=work)
        np.subtract(work, centre, out=work)
        np.abs(work, out=work)
        np.multiply(work, eps, out=work)
        np.multiply(work, factor, out=work)
        np.add(mu, work, out=mu)
    return mu


def run(method: BanditMethod, seeds: int, steps: int) -> Callable[[], Any]:
    """Return the same update, compiled, for this number of seeds."""
    learner = BanditLearner(search_bandit, method)
    keys = jnp.array([[0, r] for r in range(seeds)], jnp.uint32)
    centres = jnp.asarray(np.stack([draw_centre(N, [0, r]) for r in range(seeds)]), jnp.float32)
    runs = learner.init(centres, 1)
    # VPG without a baseline diverges at the larger step size, and infinities and NaN are slow on some machines.
    step_sizes = jnp.full(1, 0.001 if method == METHODS[0] else STEP_SIZE)
    advance = jax.jit(learner.advance, static_argnames="steps")
    return lambda: jax.block_until_ready(advance(runs, keys, centres, step_sizes, 0, steps=steps))


def memory(steps: int) -> int:
    """Return the bytes that the compiled program needs in addition to its arguments, for 16 runs."""
    learner = BanditLearner(search_bandit, BanditMethod("fpg"))
    centres = jnp.zeros((16, N))
    advance = jax.jit(learner.advance, static_argnames="steps")
    arguments = learner.init(centres, 1), jnp.zeros((16, 2), jnp.uint32), centres, jnp.ones(1), 0
    analysis: Any = advance.lower(*arguments, steps=steps).compile().memory_analysis()
    return analysis.temp_size_in_bytes + analysis.output_size_in_bytes


def rows() -> Iterator[Row]:
    steps = 4000
    centres = np.stack([draw_centre(N, [0, r]) for r in range(80)]).astype(np.float32)
    one, loop = medians(run(BanditMethod("fpg"), 1, steps), lambda: numpy_loop(centres[0], steps), repeats=9)
    yield at_least(f"FPG, one run, n = {N}", steps / one, steps / loop, "NumPy loop", 2.0)
    few = 400
    many, batch = medians(run(BanditMethod("fpg"), 80, few), lambda: numpy_loop(centres, few), repeats=9)
    yield at_least(f"FPG, 80 runs, n = {N}", 80 * few / many, 80 * few / batch, "NumPy, batched", 3.0)
    rates = [steps / t for t in medians(*(run(method, 1, steps) for method in METHODS), repeats=15)]
    vpg, vpg_value, vpg_action, fpg, fpg_value = rates
    yield at_least("  FPG", fpg, vpg, "VPG", 0.95)
    yield at_least("  FPG b(s)", fpg_value, vpg_value, "VPG b(s)", 0.95)
    yield at_least("  VPG b(s,a)", vpg_action, vpg_value, "VPG b(s)", 0.5)
    key = jnp.zeros(2, jnp.uint32)
    draw = jax.jit(lambda start: jax.vmap(lambda pair: gaussian_pair(key, pair, N))(start + jnp.arange(32)))
    ours, noise = medians(
        run(BanditMethod("fpg"), 1, 64), lambda: jax.block_until_ready(draw(jnp.int32(0))), repeats=101
    )
    yield at_most("  FPG, 64 steps of one run", ours, noise, "their noise alone", 4.0)
    short, long = memory(1_000), memory(1_000_000)
    yield Row(
        "  memory of 16 runs of 1,000,000 steps",
        f"{long / 1e6:.2f} MB",
        f"{short / 1e6:.2f} MB for 1,000 steps",
        long / short,
        "≤ 1.50×",
        long <= 1.5 * short,
    )
