"""Complete training on SUMO's 3×3 grid with two worker processes, compared with sumo-rl and the PPO of
Stable-Baselines3; and training in the lane simulator, compared with SUMO.

Both run on two cores with two simulations, rollouts of one episode each, two minibatches and the same number of passes,
two layers of 64 units for a policy shared by all nine lights, and Adam. Rates are simulated seconds per second of wall
clock, including learning and resets, without the first rollout. SUMO and sumo-rl's environment are optional: without
them the rows are left out.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from factorax_traffic import Traffic

import factorax as fx

from .bench_traffic import EPISODE, HERE, SUMO_RL, best
from .timing import Row, at_least

COPIES = 2
EPOCHS = 10
TARGET_SEEDS = range(3)


def our_rate(rounds: int = 4) -> float:
    """Measure `factorax train sumo:3x3 --rollouts processes`, with decisions, observations and targets every second."""
    from factorax_traffic.sumo import make_traffic

    times = []
    ppo = fx.FactoredPPO(
        partial(make_traffic, 3, 3),
        policy="shared,identity=8",
        critic="target",
        rollouts=f"processes,workers={COPIES}",
        n_envs=COPIES,
        n_steps=EPISODE,
        batch_size=COPIES * EPISODE // 2,
        n_epochs=EPOCHS,
    )
    total = (rounds + 1) * COPIES * EPISODE
    ppo.learn(total, progress_bar=False, callback=lambda model, metrics: times.append(time.perf_counter()))
    ppo.close()
    return COPIES * EPISODE * (len(times) - 1) / (times[-1] - times[0])


def time_to_target(simulator: Literal["lanes", "sumo"], seed: int) -> float:
    """Return the seconds until the policy is better than gap-out in SUMO, in a separate process; infinite if it never
    is."""
    command = [sys.executable, "-m", "benchmarks.time_to_target", simulator, "--seed", str(seed), "--limit", "600"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE.parent)
    result = json.loads(done.stdout.splitlines()[-1])
    return result["seconds"] if result["reached"] else float("inf")


def target_row() -> Row:
    """Return the row of the time to a policy better than gap-out: medians over seeds, whose numbers of steps differ."""
    each = {simulator: [time_to_target(simulator, seed) for seed in TARGET_SEEDS] for simulator in ("lanes", "sumo")}
    medians = [statistics.median(seconds) for seconds in each.values()]
    lanes, sumo = (
        f"{median:.0f} s ({min(seconds):.0f} to {max(seconds):.0f} in {len(TARGET_SEEDS)} seeds)"
        for median, seconds in zip(medians, each.values(), strict=True)
    )
    rate, yardstick = (1 / median for median in medians)
    row = at_least("traffic 3×3, training in lanes until better than gap-out in SUMO", rate, yardstick, "", 4.0)
    return replace(row, ours=lanes, yardstick=f"{sumo}, training in SUMO, 16 processes on two cores")


def their_rate(every: int) -> float:
    """Measure sumo-rl with Stable-Baselines3, with a decision at this interval."""
    from factorax_traffic.sumo.network import build, write_demand

    traffic = Traffic(3, 3)
    with tempfile.TemporaryDirectory() as folder:
        routes = Path(folder) / "demand.rou.xml"
        write_demand(traffic, routes)
        program = [SUMO_RL, HERE / "sumo_rl_training.py", build(traffic.grid), routes, EPISODE, every, COPIES, EPOCHS]
        done = subprocess.run([str(part) for part in program], capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout.splitlines()[-1])


def rows() -> Iterator[Row]:
    if find_spec("libsumo") is None:
        return
    yield target_row()
    if not SUMO_RL.exists():
        print("sumo-rl is left out: it has no environment, .venv-sumo-rl; make bench makes it")
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:2])  # child processes inherit these two cores
    try:
        ours, default, same = best(our_rate, partial(their_rate, 5), partial(their_rate, 1), rounds=2)
    finally:
        os.sched_setaffinity(0, cores)
    name, unit = "SUMO 3×3, training with 2 worker processes", "simulated s/s"
    what = "sumo-rl with Stable-Baselines3 that decides"
    yield at_least(name, ours, same, f"{what} every second, as ours", 2.0, unit)
    # It makes a fifth of the decisions and has a fifth of the samples, so this row has no bound.
    row = at_least(name, ours, default, f"{what} every 5 s, its default", 0.0, unit)
    yield replace(row, bound="–")
