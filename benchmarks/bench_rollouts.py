"""Workers: the speed-up of two workers, their overhead relative to bare loops, and Ray relative to processes.

SUMO and Ray are optional: without them (``pip install '.[ray]' './packages/traffic[sumo]'``) their rows are left out.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import Any, cast

import numpy as np
from factorax_traffic import Traffic

from factorax.rollouts import Backend, Iteration, NumpyPolicy, Plan, PolicyArrays, ProcessBackend, RayBackend
from factorax.spaces import ActionSpace

from .timing import Row, at_least, cpu_medians, medians, repeated

STEPS = 400


def plan(n_envs: int, side: int = 3) -> Plan:
    """Return the plan of one SUMO simulation of a square grid per environment, with a policy shared by the lights."""
    from factorax_traffic.sumo import TrafficEnv

    traffic = Traffic(side, side)
    policy = NumpyPolicy(ActionSpace.of(traffic.action_space), "shared")
    size = traffic.observation_space.shape[0]
    return Plan(
        make=partial(TrafficEnv, traffic),
        policy=policy,
        n_envs=n_envs,
        n_steps=STEPS,
        n_inputs=size,
        n_factors=side * side,
        n_targets=traffic.n_targets,
        own_local=True,
    )


def iterations(side: int = 3) -> Iterator[Iteration]:
    """Return parameters of two hidden layers of 64, and new random numbers each time."""
    rng = np.random.default_rng(0)
    sizes = 42 + 8, 64, 64, 1
    kernels = tuple(0.1 * rng.normal(size=(i, o)).astype(np.float32) for i, o in pairwise(sizes))
    biases = tuple(np.zeros(o, np.float32) for o in sizes[1:])
    parameters = PolicyArrays(
        kernels=kernels,
        biases=biases,
        identity=np.zeros((side * side, 8), np.float32),
        log_std=np.zeros(side * side, np.float32),
        mixing=np.zeros((0, 0, 0), np.float32),
    )
    for k in range(10_000):
        yield Iteration(parameters, (0, k), None)


def playing(backend: Backend) -> Callable[[], Any]:
    """Play an episode of 400 s in each environment."""
    upcoming = iterations()
    return lambda: backend.collect(next(upcoming))


def bare(connection: Connection, side: int) -> None:
    """Repeat episodes in bare SUMO: receive a seed and the actions of each, send the last observation."""
    from factorax_traffic.sumo import TrafficEnv

    env = TrafficEnv(Traffic(side, side))
    connection.send(None)
    while True:
        seed, actions = connection.recv()
        observation, _ = env.reset(seed=seed)
        for action in actions:
            observation, *_ = env.step(action)
        connection.send(observation)


class WorkersAndLoops:
    """Two worker processes, and two processes with a bare loop each, which repeat the workers' episodes."""

    def __init__(self, side: int) -> None:
        self.workers, self._upcoming = ProcessBackend(plan(2, side), 2, 600.0), iterations(side)
        self._transitions = self.workers.collect(next(self._upcoming))
        self._seeds: list[int] = []
        context = multiprocessing.get_context("spawn")
        pairs = [context.Pipe() for _ in range(2)]
        self._loops = [context.Process(target=bare, args=(theirs, side), daemon=True) for _, theirs in pairs]
        self._connections = [ours for ours, _ in pairs]
        for process, (_, theirs) in zip(self._loops, pairs, strict=True):
            process.start()
            theirs.close()  # a loop that ends is then an EOFError here
        for connection in self._connections:
            connection.recv()

    def play(self) -> None:
        """Play an episode in each worker."""
        assert self.workers.episodes is not None
        self._seeds = [episode.seed for episode in self.workers.episodes]
        self._transitions = self.workers.collect(next(self._upcoming))

    def repeat(self) -> None:
        """Play the same episodes in bare loops."""
        actions = self._transitions.action.astype(np.int8)
        for i, connection in enumerate(self._connections):
            connection.send((self._seeds[i], actions[:, i]))
        for i, connection in enumerate(self._connections):
            np.testing.assert_array_equal(connection.recv(), self._transitions.next_obs[-1, i])

    def close(self) -> None:
        for process in self._loops:
            process.kill()
        self.workers.close()


def start_seconds() -> float:
    """Measure the time from start to the first step of a worker, on an environment that takes no time."""
    import gymnasium as gym

    make = partial(gym.make, "CartPole-v1")
    policy = NumpyPolicy(ActionSpace.of(make().action_space), "joint")
    parameters = PolicyArrays(
        kernels=(np.zeros((4, 2), np.float32),),
        biases=(np.zeros(2, np.float32),),
        identity=None,
        log_std=np.zeros(1, np.float32),
        mixing=np.zeros((0, 0, 0)),
    )
    plan = Plan(make=make, policy=policy, n_envs=1, n_steps=1, n_inputs=4, n_factors=1, n_targets=1)
    backend = ProcessBackend(plan, 1, 60.0)
    begun = time.perf_counter()
    backend.collect(Iteration(parameters, (0,), 0))
    taken = time.perf_counter() - begun
    backend.close()
    return taken


def policy_row() -> Row:
    """Yield the row of the policy alone, in a separate loop: local observations of nine lights, three layers, and
    actions."""
    steps, traffic = 1000, Traffic(3, 3)
    policy = NumpyPolicy(ActionSpace.of(traffic.action_space), "shared", local=traffic.local)
    rng, parameters = np.random.default_rng(0), cast(PolicyArrays, next(iterations()).parameters)
    observations = rng.random((steps, 1, traffic.observation_space.shape[0])).astype(np.float32)
    noise = policy.draw(rng, parameters, steps)[:, None]

    def play() -> None:
        act = policy.playing(parameters, 0, noise)
        for obs in observations:
            act(obs)

    (seconds,) = cpu_medians(play)
    micro = 1e6 * seconds / steps
    return Row(
        "NumPy policy, a step of nine lights; CPU time", f"{micro:.1f} µs", "30 µs", micro / 30, "≤ 1×", micro <= 30
    )


def rows() -> Iterator[Row]:
    yield policy_row()
    taken = start_seconds()
    yield Row("a worker process, start to first step", f"{taken:.2f} s", "", taken, "–", True)
    if find_spec("libsumo") is None:
        return
    name, loops = "SUMO 3×3, 2 worker processes", "two bare loops of the same episodes"

    def workers(one: Backend, two: WorkersAndLoops) -> Iterator[Row]:
        single, double, alone = medians(playing(one), two.play, two.repeat, repeats=15)
        yield at_least(name, 2 * STEPS / double, STEPS / single, "1 worker", 1.7, "steps/s")
        yield at_least(name, 2 * STEPS / double, 2 * STEPS / alone, loops, 0.9, "steps/s")

    def workers_of_a_larger_grid(larger: WorkersAndLoops) -> Iterator[Row]:
        double, alone = medians(larger.play, larger.repeat, repeats=9)
        yield at_least("SUMO 6×6, 2 worker processes", 2 * STEPS / double, 2 * STEPS / alone, loops, 0.9, "steps/s")

    with closing(WorkersAndLoops(3)) as two:
        with closing(ProcessBackend(plan(1), 1, 600.0)) as one:
            yield from repeated(partial(workers, one, two), runs=7, tolerance=0.05)
        if find_spec("ray") is not None:
            try:
                with closing(RayBackend(plan(2), 2, 600.0)) as by_ray:
                    ours, theirs = medians(playing(by_ray), two.play, repeats=31)
            finally:  # processes of Ray would take time from, and count as, those of later rows
                import_module("ray").shutdown()
            name = "SUMO 3×3, 2 actors of Ray"
            yield at_least(name, 2 * STEPS / ours, 2 * STEPS / theirs, "processes", 0.8, "steps/s")
    with closing(WorkersAndLoops(6)) as larger:
        yield from repeated(partial(workers_of_a_larger_grid, larger), runs=5, tolerance=0.05)
