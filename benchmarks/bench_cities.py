"""Compare rollouts in a city with two worker processes to a bare SUMO loop with the same lights and seconds.

The city is synthetic and has nine lights, because the RESCO networks are not a dependency. Both rates count CPU seconds
of this process and of the workers, so all work outside SUMO counts as overhead: observations, targets, the policy, and
communication between processes. The row is left out if SUMO is not installed.
"""

import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import factorax as fx
from factorax.problems.traffic.city import CityEnv
from factorax.problems.traffic.city.synthetic import write_city

from .timing import Row, at_least

WORKERS, SECONDS, ROUNDS = 2, 900, 4


def rows() -> Iterator[Row]:
    """Yield the comparison."""
    if find_spec("libsumo") is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        files = write_city(folder, 3, 3, trips=1800)
        ours, bare = rollout_rate(*files), bare_rate(*files)
    name = "rollouts in a city of nine lights, two worker processes; CPU time"
    yield at_least(name, ours, bare, "SUMO alone", 0.8, unit="simulated s/s")


def rollout_rate(net: Path, routes: Path) -> float:
    """Return simulated seconds per CPU second of rollouts; an update makes one pass with one minibatch."""
    steps = SECONDS // 10
    model = fx.FactoredPPO(
        lambda: CityEnv(net, routes, network="section", horizon=SECONDS, clearing=0),
        policy="shared",
        architecture="choices",
        critic="factor",
        identity=0,
        hidden=(32, 32),
        rollouts="processes",
        workers=WORKERS,
        n_envs=WORKERS,
        n_steps=steps,
        batch_size=WORKERS * steps,
        n_epochs=1,
        learning_rate=1e-9,
        check_network=False,
    )
    own: list[float] = []
    pids: list[float] = []

    def look(model: fx.FactoredPPO, metrics: dict) -> None:
        own.append(time.process_time())
        pids.append(_workers_cpu())

    model.learn((ROUNDS + 1) * WORKERS * steps, callback=look, progress_bar=False)
    model.close()
    spent = own[-1] - own[0] + pids[-1] - pids[0]
    return ROUNDS * WORKERS * SECONDS / spent


def _workers_cpu() -> float:
    """Return the CPU seconds of all running child processes."""
    import psutil

    times = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return sum(each.user + each.system for each in times)


def bare_rate(net: Path, routes: Path) -> float:
    """Return simulated seconds per CPU second of a loop that sets lights and steps SUMO, and reads nothing.

    The lights are those of episodes with random phases, like those of an untrained policy.
    """
    env = CityEnv(net, routes, horizon=SECONDS, clearing=0)
    rng = np.random.default_rng(0)
    spent = 0.0
    for seed in range(ROUNDS):
        shown: list[list[tuple[str, str]]] = []
        api = env.simulation
        env.reset(seed=seed)

        def look(shown: list[list[tuple[str, str]]] = shown) -> None:
            lights = env.simulation.api.trafficlight
            shown.append([(light.name, lights.getRedYellowGreenState(light.name)) for light in env.roads.lights])

        env.every_second = look
        for _ in range(SECONDS // env.interval):
            env.step(rng.integers(env.roads.n_phases))
        env.every_second = None
        begun = time.process_time()
        api.reset(seed)
        show, step = api.api.trafficlight.setRedYellowGreenState, api.api.simulationStep
        before: list[tuple[str, str]] = []
        for lights in shown:
            if lights != before:
                for name, state in lights:
                    show(name, state)
                before = lights
            step()
        spent += time.process_time() - begun
    env.close()
    return ROUNDS * SECONDS / spent
