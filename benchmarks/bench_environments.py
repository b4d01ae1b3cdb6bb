"""Third-party environments: the cost of the wrapper per step, and of stepping many environments."""

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from factorax import InfluenceNetwork, wrap
from factorax.rollouts import Environments
from factorax.spaces import ActionSpace

from .timing import Row, at_least, medians

N = 30
STEPS, COPIES = 500, 8


class Tanks(gym.Env):
    """Thirty tanks, each with a valve and a target; `work` is the number of additional array operations per step."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2 * N,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (N,), np.float32)
    reward_space = gym.spaces.Box(-np.inf, 0.0, (N,), np.float32)

    def __init__(self, work: int = 0):
        self.work, self.time = work, 0
        self.level = np.zeros(2 * N, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.time, self.level = 0, np.zeros(2 * N, np.float32)
        return self.level, {}

    def step(self, action: np.ndarray) -> Any:
        self.time += 1
        level = 0.9 * self.level
        for _ in range(self.work):
            level = np.tanh(level)
        level[:N] += action
        self.level = level
        return level, -np.abs(level[:N]), False, self.time >= 200, {}


def rows() -> Iterator[Row]:
    network = InfluenceNetwork.identity(N)
    for work in (0, 200):
        yield overhead(work, network)
    slow = wrap(lambda: Tanks(200), network)
    yield in_a_row(f"{COPIES} environments in a row, n = m = {N}, 200 array operations", slow, N, 0.9)
    yield in_a_row(f"{COPIES} environments in a row, CartPole-v1", lambda: gym.make("CartPole-v1"), 1, None)


def overhead(work: int, network: InfluenceNetwork) -> Row:
    """Measure a step of a wrapped environment relative to the bare environment."""
    action = np.zeros(N, np.float32)

    def episode(env: Any) -> Callable[[], None]:
        def run() -> None:
            env.reset(seed=0)
            for _ in range(STEPS):
                env.step(action)

        return run

    bare, wrapped = (taken / STEPS for taken in medians(episode(Tanks(work)), episode(wrap(Tanks(work), network))))
    allowed = bare + 15e-6 + 0.02 * bare
    return Row(
        f"a wrapped step, n = m = {N}, {work} array operations",
        f"{wrapped * 1e6:.1f} µs",
        f"{bare * 1e6:.1f} µs bare",
        wrapped / bare,
        "≤ +15 µs + 2 %",
        wrapped <= allowed,
    )


def in_a_row(name: str, make: Callable[[], Any], m: int, bound: float | None) -> Row:
    """Measure steps per second of our vectoriser relative to a loop over the same environments that stores nothing."""
    space = ActionSpace.of(make().action_space)
    hosts = Environments(make, COPIES, space, m)
    hosts.init(0)
    actions = np.zeros((COPIES, len(space)), np.float32)
    envs = [make() for _ in range(COPIES)]
    for i, env in enumerate(envs):
        env.reset(seed=i)
    element = space.to_environment(actions[0])

    def bare() -> None:
        for _ in range(STEPS // 2):
            for env in envs:
                _, _, terminated, truncated, _ = env.step(element)
                if terminated or truncated:
                    env.reset()

    ours, theirs = medians(lambda: hosts.collect(lambda obs: actions, STEPS // 2), bare)
    steps = COPIES * (STEPS // 2)
    row = at_least(name, steps / ours, steps / theirs, "bare", bound or 0.0, "steps/s")
    return row if bound is not None else Row(row.name, row.ours, row.yardstick, row.ratio, "–", True)
