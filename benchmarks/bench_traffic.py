"""The lane simulator against SUMO, which makes the same observations and targets, and against itself on larger grids.

SUMO is no dependency: without it (``pip install 'factorax[sumo]'``) its row is left out.
"""

import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import jax
import numpy as np

from factorax.problems.traffic import Traffic, lanes

from .timing import Row, at_least, at_most, medians

SLOTS = 16


def lane_steps(rows: int, columns: int, n_envs: int, steps: int, **settings: Any) -> Callable[[], Any]:
    """So many steps of so many grids under random requests, with observations and targets, compiled."""
    problem = lanes(rows, columns, **settings)
    n = rows * columns

    def step(carry: Any, key: jax.Array) -> tuple[Any, None]:
        states, total = carry
        request = jax.random.bernoulli(key, 0.5, (n_envs, n))
        new = jax.vmap(problem.step, in_axes=(None, 0, 0))(key, states, request)
        return (new.state, total + new.psi.sum() + new.obs.sum()), None

    states, _ = jax.jit(jax.vmap(problem.reset))(jax.random.split(jax.random.key(0), n_envs))
    keys = jax.random.split(jax.random.key(1), steps)
    run = jax.jit(lambda states: jax.lax.scan(step, (states, 0.0), keys)[0][1])
    return lambda: jax.block_until_ready(run(states))


def cpu_rate(function: Callable[[], Any], steps: int, repeats: int = 5) -> float:
    """Steps a second of processor time, the best of some."""
    function()
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return steps / best


def sumo_steps(steps: int) -> Callable[[], Any]:
    """The same in SUMO, one grid."""
    from factorax.problems.traffic.sumo import TrafficEnv

    env = TrafficEnv(Traffic(3, 3))
    requests = np.random.default_rng(0).random((steps, 9)) < 0.5

    def run() -> None:
        env.reset(seed=0)
        for request in requests:
            env.step(request)

    return run


def rows() -> Iterator[Row]:
    steps = 200
    ours = cpu_rate(lane_steps(3, 3, 50, steps, slots=SLOTS), 50 * steps)
    if find_spec("libsumo") is not None:
        theirs = cpu_rate(sumo_steps(400), 400)
        yield at_least("traffic 3×3, 50 grids, lanes", ours, theirs, "SUMO by libsumo", 20.0, "steps/CPU-s")
    small, large = medians(
        lane_steps(10, 10, 4, 5, initial="everywhere"), lane_steps(100, 100, 4, 5, initial="everywhere"), repeats=5
    )
    yield at_most("traffic, a step of 100×100 lights", large, 100 * small, "100 steps of 10×10", 1.2)
