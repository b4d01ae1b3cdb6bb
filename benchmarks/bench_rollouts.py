"""Workers: the speed-up of two workers, their overhead relative to bare loops, and Ray relative to processes.

SUMO and Ray are optional: without them (``pip install 'factorax[sumo,ray]'``) their rows are left out.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, cast

import numpy as np

from factorax.problems.traffic import Traffic
from factorax.rollouts import Backend, Iteration, NumpyPolicy, Plan, PolicyArrays, Processes, RayActors
from factorax.spaces import ActionSpace

from .timing import Row, at_least, cpu_medians, medians, repeated

STEPS = 400


def plan(n_envs: int) -> Plan:
    """Return the plan of one SUMO simulation of the 3×3 grid per environment, with a policy shared by the lights."""
    from factorax.problems.traffic.sumo import TrafficEnv

    traffic = Traffic(3, 3)
    policy = NumpyPolicy(ActionSpace.of(traffic.action_space), "shared")
    size = traffic.observation_space.shape[0]
    return Plan(
        make=partial(TrafficEnv, traffic),
        policy=policy,
        n_envs=n_envs,
        n_steps=STEPS,
        n_inputs=size,
        n_factors=9,
        n_targets=traffic.n_targets,
        own_local=True,
    )


def iterations() -> Iterator[Iteration]:
    """Return parameters of two hidden layers of 64, and new random numbers each time."""
    rng = np.random.default_rng(0)
    sizes = 42 + 8, 64, 64, 1
    kernels = tuple(0.1 * rng.normal(size=(i, o)).astype(np.float32) for i, o in pairwise(sizes))
    biases = tuple(np.zeros(o, np.float32) for o in sizes[1:])
    parameters = PolicyArrays(
        kernels=kernels,
        biases=biases,
        identity=np.zeros((9, 8), np.float32),
        log_std=np.zeros(9, np.float32),
        colour=np.zeros((0, 0, 0), np.float32),
    )
    for k in range(10_000):
        yield Iteration(parameters, (0, k), None)


def playing(backend: Backend) -> Callable[[], Any]:
    """Play an episode of 400 s in each environment."""
    upcoming = iterations()
    return lambda: backend.collect(next(upcoming))


def bare(seed: int, ready: Any, go: Any, done: Any) -> None:
    """Step bare SUMO with the requests of an untrained policy."""
    from factorax.problems.traffic.sumo import TrafficEnv

    env = TrafficEnv(Traffic(3, 3))
    requests = np.random.default_rng(0).random((STEPS, 9)) < 0.5
    ready.release()
    while go.acquire():
        seed += 2
        env.reset(seed=seed)
        for request in requests:
            env.step(request)
        done.release()


class TwoLoops:
    """Run two processes with one bare loop each, on other episodes of varying length."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.go, self.done, ready = context.Semaphore(0), context.Semaphore(0), context.Semaphore(0)
        self.processes = [
            context.Process(target=bare, args=(i, ready, self.go, self.done), daemon=True) for i in range(2)
        ]
        for process in self.processes:
            process.start()
        for _ in self.processes:
            ready.acquire()

    def __call__(self) -> None:
        for _ in self.processes:
            self.go.release()
        for _ in self.processes:
            self.done.acquire()

    def close(self) -> None:
        for process in self.processes:
            process.kill()


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
        colour=np.zeros((0, 0, 0)),
    )
    plan = Plan(make=make, policy=policy, n_envs=1, n_steps=1, n_inputs=4, n_factors=1, n_targets=1)
    backend = Processes(plan, 1, 60.0)
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
    one, two = Processes(plan(1), 1, 600.0), Processes(plan(2), 2, 600.0)
    loops = TwoLoops()
    name = "SUMO 3×3, 2 worker processes"

    def workers() -> Iterator[Row]:
        single, double, alone = medians(playing(one), playing(two), loops, repeats=15)
        yield at_least(name, 2 * STEPS / double, STEPS / single, "1 worker", 1.7, "steps/s")
        yield at_least(name, 2 * STEPS / double, 2 * STEPS / alone, "two bare loops", 0.9, "steps/s")

    try:
        yield from repeated(workers, runs=7, tolerance=0.05)
    finally:
        loops.close()
        one.close()
    if find_spec("ray") is not None:
        by_ray = RayActors(plan(2), 2, 600.0)
        ours, theirs = medians(playing(by_ray), playing(two), repeats=31)
        by_ray.close()
        yield at_least("SUMO 3×3, 2 actors of Ray", 2 * STEPS / ours, 2 * STEPS / theirs, "processes", 0.8, "steps/s")
    two.close()
