"""The lane simulator compared with SUMO at equal observations and targets, and with itself on larger grids; SUMO's
environment compared with bare SUMO and with sumo-rl.

SUMO is optional: without it (``pip install './packages/traffic[sumo]'``) its rows are left out, and so are those of
sumo-rl without its environment, which `make bench` creates.
"""

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np
from factorax_traffic import Signals, Traffic, lanes
from factorax_traffic.signals import colours, switch

from .timing import Row, at_least, at_most, medians

SLOTS = 16
EPISODE = 400
PROMISED = 1200.0
"""Steps of SUMO's environment for a second of processor time."""
HERE = Path(__file__).parent
SUMO_RL = HERE.parent / ".venv-sumo-rl" / "bin" / "python"


def lane_steps(rows: int, columns: int, n_envs: int, steps: int, **settings: Any) -> Callable[[], Any]:
    """Return a compiled function that steps grids under random requests, with observations and targets."""
    problem = lanes(rows, columns, **settings)
    # Grids are the last axis, as in the learner's rollouts.
    every = jax.vmap(problem.step, in_axes=(None, -1, -1), out_axes=-1)
    unused = jax.random.key(0)

    def step(carry: Any, request: jax.Array) -> tuple[Any, None]:
        states, total = carry
        new = every(unused, states, request)
        return (new.state, total + new.psi.sum() + new.obs.sum()), None

    reset = jax.jit(jax.vmap(problem.reset, out_axes=-1))
    states, _ = reset(jax.random.split(jax.random.key(0), n_envs))
    requests = jax.random.bernoulli(jax.random.key(1), 0.5, (steps, rows * columns, n_envs))
    run = jax.jit(lambda states, requests: jax.lax.scan(step, (states, 0.0), requests)[0][1])
    return lambda: jax.block_until_ready(run(states, requests))


def cpu_rate(function: Callable[[], Any], steps: int, repeats: int = 5) -> float:
    """Return the best of several measurements of steps per second of processor time."""
    function()
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return steps / best


def best(*rates: Callable[[], float], rounds: int = 3) -> list[float]:
    """Return the largest rate of each function, measured in turn so that noise affects all equally."""
    return np.max([[rate() for rate in rates] for _ in range(rounds)], axis=0).tolist()


def sumo_steps(env: Any, requests: np.ndarray) -> Callable[[], Any]:
    """Measure an episode of one grid in SUMO."""

    def run() -> None:
        env.reset(seed=0)
        for request in requests:
            env.step(request)

    return run


def bare_steps(env: Any, requests: np.ndarray) -> Callable[[], Any]:
    """Measure SUMO with the same lights, without reading anything."""
    lights, commands = Signals.start(env.grid.n_lights), []
    for request in requests:
        before, lights = lights, switch(lights, request)
        turned = np.flatnonzero(before.yellow != lights.yellow).tolist()
        commands.append([(env.grid.lights[k], colours(lights, k)) for k in turned])

    def run() -> None:
        env.simulation.reset(0)
        api = env.simulation.api
        for name in env.grid.lights:
            api.trafficlight.setRedYellowGreenState(name, "GrGr")
        for _ in range(2):
            api.simulationStep()
        for turned in commands:
            for name, shown in turned:
                api.trafficlight.setRedYellowGreenState(name, shown)
            api.simulationStep()

    return run


def sumo_rl_rate(traffic: Traffic, every: int) -> float:
    """Measure simulated seconds of sumo-rl per second of processor time, with the same streets and cars."""
    from factorax_traffic.sumo.network import build, write_demand

    with tempfile.TemporaryDirectory() as folder:
        routes = Path(folder) / "demand.rou.xml"
        write_demand(traffic, routes)
        command = [SUMO_RL, HERE / "sumo_rl_rate.py", build(traffic.grid), routes, EPISODE, every]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def sumo_rows() -> Iterator[Row]:
    from factorax_traffic.sumo import TrafficEnv

    env = TrafficEnv(Traffic(3, 3))
    requests = np.random.default_rng(0).random((EPISODE, 9)) < 0.5
    run, bare = sumo_steps(env, requests), bare_steps(env, requests)
    lane_run, unit = lane_steps(3, 3, 50, 200, slots=SLOTS), "steps/CPU-s"
    env.simulation.subscribes = True
    ours, theirs = best(lambda: cpu_rate(lane_run, 50 * 200), lambda: cpu_rate(run, EPISODE))
    yield at_least("traffic 3×3, 50 grids, lanes", ours, theirs, "SUMO by libsumo, with subscriptions", 20.0, unit)
    env.simulation.subscribes = False
    name = "traffic 3×3, SUMO's environment"
    ours, theirs = best(lambda: cpu_rate(run, EPISODE), lambda: cpu_rate(bare, EPISODE))
    yield at_least(name, ours, PROMISED, "promised", 1.0, unit)
    yield at_least(name, ours, theirs, "bare SUMO: lights and cars, nothing read", 0.25, unit)
    if SUMO_RL.exists():
        for every, bound, what in ((1, 1.3, "every second, as ours"), (5, 0.5, "every 5 s, its default")):
            rate = partial(sumo_rl_rate, env.traffic, every)
            ours, theirs = best(lambda: cpu_rate(run, EPISODE), rate)
            yield at_least(name, ours, theirs, f"sumo-rl that decides {what}", bound, "simulated s/CPU-s")
    else:
        print("sumo-rl is left out: it has no environment, .venv-sumo-rl; make bench makes it")
    env.close()


def rows() -> Iterator[Row]:
    if find_spec("libsumo") is not None:
        yield from sumo_rows()
    small, large = medians(
        lane_steps(10, 10, 4, 5, initial="everywhere"), lane_steps(100, 100, 4, 5, initial="everywhere"), repeats=5
    )
    yield at_most("traffic, a step of 100×100 lights", large, 100 * small, "100 steps of 10×10", 1.2)
