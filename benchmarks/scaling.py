"""Discrete-event simulation of thousands of workers: ``python -m benchmarks.scaling`` prints the table of
docs/explanation/scaling.md.

The inputs are measured first: the time of a SUMO fragment, the bytes sent and returned, the time to receive a fragment,
and the time of an update. The simulation adds a network in which all data pass through one link of the learner's
machine.
"""

import heapq
import os
import time
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from .bench_rollouts import STEPS, iterations, plan

GIGABITS = 10.0
"""Gigabits per second of the learner's link."""
LATENCY = 2e-4
NODE = 50
"""Number of workers per machine."""
H200 = 0.377 / (16 * 20_000)
"""Seconds of ten epochs per step of the 3×3 grid: 16 seeds, 20,000 steps each; see docs/explanation/benchmarks.md."""
H200_LARGE = 0.1697 / 819_200
"""The same for one learner with 819,200 steps in ten minibatches, whose products are large enough for the device."""
ITERATIONS = 30


@dataclass(frozen=True)
class Measured:
    """Measurements on one machine."""

    fragments: np.ndarray
    """Seconds of each measured fragment."""
    sent: int
    """Number of bytes of the parameters."""
    returned: int
    """Number of bytes of a fragment."""
    taken_in: float
    """Seconds in which the learner receives a fragment, without the link."""
    update: float
    """Seconds in which the learner learns from one step."""


@dataclass(frozen=True)
class Shares:
    """Fractions of the time of all workers."""

    playing: float
    parameters: float
    others: float
    link: float
    learner: float


def simulate(
    measured: Measured,
    workers: int,
    *,
    overlap: bool = False,
    gigabits: float = GIGABITS,
    episodes: int = 1,
    seed: int = 0,
) -> Shares:
    """Return how workers spend their time.

    Parameters are sent once to every machine. A worker plays its fragment and waits for the link, which transfers one
    fragment at a time. The learner starts when it has all fragments; with `overlap`, it learns while the workers play
    the next ones.
    """
    rng, speed = np.random.default_rng(seed), gigabits * 1e9 / 8
    spent = dict.fromkeys(("playing", "parameters", "others", "link"), 0.0)
    now, free = 0.0, 0.0  # time of the workers, and time at which the learner is
    for _ in range(ITERATIONS):
        node = 1 + np.arange(workers) // NODE
        begun = now + LATENCY + node * measured.sent / speed
        played = rng.choice(measured.fragments, (episodes, workers)).sum(axis=0)
        events = [(t, i) for i, t in enumerate((begun + played).tolist())]
        heapq.heapify(events)
        link, last_played = 0.0, 0.0
        while events:
            last_played, _ = heapq.heappop(events)
            link = max(link, last_played + LATENCY) + episodes * (measured.returned / speed + measured.taken_in)
        spent["parameters"] += (begun - now).sum()
        spent["playing"] += played.sum()
        finished = begun + played
        spent["others"] += (last_played - finished).sum()
        spent["link"] += workers * (link - last_played)
        learns_at = max(link, free)
        free = learns_at + workers * episodes * STEPS * measured.update
        now = learns_at if overlap else free
    total = workers * now
    return Shares(**{k: v / total for k, v in spent.items()}, learner=1 - sum(spent.values()) / total)


def measure() -> Measured:
    """Measure on this machine SUMO's 3×3 grid with a worker process, and the learner of the traffic study on the
    CPU."""
    from factorax_traffic import lanes

    from factorax.ppo import Config, Learner
    from factorax.rollouts import ProcessBackend
    from factorax.rollouts.transitions import slim, whole

    rollouts, given = ProcessBackend(plan(1), 1, 600.0), iterations()
    parameters = next(given)
    seen, taken = rollouts.collect(parameters), []
    for _ in range(20):
        begun = time.perf_counter()
        seen = rollouts.collect(next(given))
        taken.append(time.perf_counter() - begun)
    rollouts.close()
    sent_back = slim(seen)
    arrays = [np.asarray(x) for x in jax.tree.leaves(sent_back)]
    begun = time.perf_counter()
    for _ in range(100):
        whole(sent_back)
    taken_in = (time.perf_counter() - begun) / 100
    returned = sum(x.nbytes for x in arrays)
    sent = sum(np.asarray(x).nbytes for x in jax.tree.leaves(parameters.parameters))

    sizes: dict[str, Any] = {"n_envs": 8, "n_steps": 100, "batch_size": 200, "n_epochs": 10, "hidden": (32, 32, 32)}
    config = Config(policy="shared,identity=8", critic="target", **sizes)
    learner = Learner.of(lanes(3, 3, slots=16), config=config)
    state = learner.init()
    _, _, seen = learner.collector.collect(learner.behaviour(state), state.environments, jax.random.key(0))
    learn = jax.jit(learner.learn_from)
    jax.block_until_ready(learn(state, seen))
    begun = time.perf_counter()
    jax.block_until_ready(learn(state, seen))
    return Measured(np.array(taken), sent, returned, taken_in, (time.perf_counter() - begun) / 800)


def main() -> None:
    """Print the measurements and the table."""
    here = measure()
    console = Console(width=110)
    console.print(
        f"a fragment of {STEPS} steps {np.median(here.fragments):.3f} s ({here.fragments.min():.3f} to "
        f"{here.fragments.max():.3f}); {here.returned / 1e6:.2f} MB returned, taken in within "
        f"{1e3 * here.taken_in:.2f} ms; {here.sent / 1e3:.0f} kB sent; an update {1e6 * here.update:.0f} µs a step on "
        f"this CPU ({os.cpu_count()} cores), {1e6 * H200:.2f} µs on an H200"
    )
    fast, large = replace(here, update=H200), replace(here, update=H200_LARGE)
    slow = replace(here, fragments=20 * here.fragments, update=H200)
    longer = {"overlap": True, "episodes": 10}
    options: dict[str, tuple[Measured, dict[str, Any]]] = {
        "SUMO 3×3, learner on this CPU": (here, {}),
        "learner on an H200": (fast, {}),
        "and rollouts with overlap": (fast, {"overlap": True}),
        "and --n-steps 4000": (fast, longer),
        "and a link of 100 Gb/s": (fast, longer | {"gigabits": 100}),
        "and ten minibatches": (large, longer | {"gigabits": 100}),
        "and a link of 400 Gb/s": (large, longer | {"gigabits": 400}),
        "a simulator 20 times as slow": (slow, {}),
        "with overlap, --n-steps 4000": (slow, longer),
        "and a link of 100 Gb/s ": (slow, longer | {"gigabits": 100}),
    }
    table = Table("", "workers", "playing", "parameters", "others", "link", "learner")
    for name, (measured, given) in options.items():
        for workers in (50, 500, 5000):
            shares = simulate(measured, workers, **given)
            table.add_row(name, f"{workers:,}", *(f"{abs(100 * x):.0f} %" for x in vars(shares).values()))
    console.print(table)


if __name__ == "__main__":
    main()
