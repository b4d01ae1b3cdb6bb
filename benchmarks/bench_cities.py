"""Compare rollouts in a city with two worker processes to two bare SUMO loops with the same lights and seconds.

The city is synthetic and has nine lights, because the RESCO networks are not a dependency. Both rates count CPU seconds
of all processes, so all work outside SUMO counts as overhead: observations, targets, the policy, learning, and
communication between processes. The bare loops also run in two processes at the same time, so that both sides share the
caches and cores of the machine in the same way. Updates and bare loops alternate. The row is left out if SUMO is not
installed.
"""

import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from factorax_traffic.city import CityEnv
from factorax_traffic.city.synthetic import write_city

import factorax as fx

from .timing import Row, at_least, repeated

WORKERS, SECONDS, ROUNDS = 2, 900, 19


def rows() -> Iterator[Row]:
    """Yield the comparison."""
    if find_spec("libsumo") is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        files = write_city(folder, 3, 3, trips=1800)
        yield from repeated(lambda: [row(*files)], runs=3, tolerance=0.03)


def row(net: Path, routes: Path) -> Row:
    """Return the row of one training; an update makes one pass with one minibatch."""
    steps = SECONDS // 10
    model = fx.FactoredPPO(
        lambda: CityEnv(net, routes, network="section", horizon=SECONDS, clearing=0),
        policy="shared",
        architecture="choices",
        critic="factor",
        hidden=(32, 32),
        rollouts=f"processes,workers={WORKERS}",
        n_envs=WORKERS,
        n_steps=steps,
        batch_size=WORKERS * steps,
        n_epochs=1,
        learning_rate=1e-9,
        check_network=False,
    )
    loops = BareLoops(net, routes)
    before = 0.0
    updates: list[float] = []
    bare: list[float] = []

    def measure(model: fx.FactoredPPO, metrics: dict) -> None:
        nonlocal before
        updates.append(time.process_time() + _workers_cpu(loops.pids) - before)
        bare.append(loops.play())
        before = _workers_cpu(loops.pids)
        before += time.process_time()  # after the search for processes, which takes milliseconds

    try:
        model.learn((ROUNDS + 1) * WORKERS * steps, callback=measure, progress_bar=False)
    finally:
        model.close()
        loops.close()
    simulated = WORKERS * SECONDS
    ours, theirs = (simulated / statistics.median(seconds[1:]) for seconds in (updates, bare))  # the first one compiles
    name = "rollouts in a city of nine lights, two worker processes; CPU time"
    return at_least(name, ours, theirs, "two bare loops of SUMO at the same time", 0.8, unit="simulated s/s")


def _workers_cpu(others: list[int]) -> float:
    """Return the CPU seconds of all running child processes but `others`."""
    import psutil

    children = [child for child in psutil.Process().children(recursive=True) if child.pid not in others]
    if sys.platform == "linux":  # the CPU clocks of other processes, in nanoseconds instead of hundredths of a second
        return sum(time.clock_gettime(~child.pid << 3 | 2) for child in children)
    return sum(child.cpu_times().user + child.cpu_times().system for child in children)


class BareLoops:
    """Processes that run one bare loop of SUMO each, at the same time."""

    def __init__(self, net: Path, routes: Path) -> None:
        context = multiprocessing.get_context("spawn")
        pipes = [context.Pipe() for _ in range(WORKERS)]
        self.connections = [ours for ours, _ in pipes]
        self.processes = [
            context.Process(target=bare_loops, args=(net, routes, i, theirs), daemon=True)
            for i, (_, theirs) in enumerate(pipes)
        ]
        for process in self.processes:
            process.start()
        for connection in self.connections:
            connection.recv()

    @property
    def pids(self) -> list[int]:
        """The process ids."""
        return [process.pid for process in self.processes if process.pid is not None]

    def play(self) -> float:
        """Play an episode in each process; return their CPU seconds."""
        for message in ("prepare", "play"):
            for connection in self.connections:
                connection.send(message)
            replies = [connection.recv() for connection in self.connections]
        return sum(replies)

    def close(self) -> None:
        """Stop the processes."""
        for process in self.processes:
            process.kill()


def bare_loops(net: Path, routes: Path, number: int, driver: Connection) -> None:
    """Run loops that set lights and step SUMO, and read nothing; send the CPU seconds of each.

    The lights are those of episodes with random phases, like those of an untrained policy.
    """
    env = CityEnv(net, routes, horizon=SECONDS, clearing=0)
    rng = np.random.default_rng(number)
    driver.send("ready")
    seed = number
    while driver.recv():
        seed += WORKERS
        lights = _lights_shown(env, rng, seed)
        driver.send("prepared")
        driver.recv()
        begun = time.process_time()
        env.simulation.reset(seed)
        api = env.simulation.api
        show, step = api.trafficlight.setRedYellowGreenState, api.simulationStep
        before: list[tuple[str, str]] = []
        for shown in lights:
            if shown != before:
                for name, state in shown:
                    show(name, state)
                before = shown
            step()
        driver.send(time.process_time() - begun)


def _lights_shown(env: CityEnv, rng: np.random.Generator, seed: int) -> list[list[tuple[str, str]]]:
    """Return name and state of each light in each second of an episode with random phases."""
    shown: list[list[tuple[str, str]]] = []

    def look() -> None:
        lights = env.simulation.api.trafficlight
        shown.append([(light.name, lights.getRedYellowGreenState(light.name)) for light in env.roads.lights])

    env.reset(seed=seed)
    env.every_second = look
    for _ in range(SECONDS // env.interval):
        env.step(rng.integers(env.roads.n_phases))
    env.every_second = None
    return shown
