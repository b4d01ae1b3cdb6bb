"""Simulators that compute many cases per call: training on one, compared with bare calls.

The wind farm here takes a tenth of the time of a wake model that evaluates 9 cases per second one by one, and 258 in
calls of 64 cases: 90 and 2,580. All overhead outside the simulator therefore weighs ten times as much.
"""

import time
from collections.abc import Iterator

import gymnasium as gym
import numpy as np

import factorax as fx

from .timing import Row, at_least, medians

CASES, TURBINES, STEPS = 64, 9, 16
SPEED_UP = 10
PER_CASE = (CASES / 258 - 1 / 9) / (CASES - 1) / SPEED_UP
PER_CALL = 1 / 9 / SPEED_UP - PER_CASE
"""Seconds."""
YAW = gym.spaces.Box(-30.0, 30.0, (TURBINES,), np.float32)
_PLACES = np.stack(np.meshgrid(np.arange(3.0) * 5, np.arange(3.0) * 3), axis=-1).reshape(-1, 2)  # in diameters
_DOWN, _ACROSS = (_PLACES[None, :, k] - _PLACES[:, None, k] for k in range(2))
_BEHIND = _DOWN > 0


def power(yaw: np.ndarray) -> np.ndarray:
    """Return the power of each turbine given the yaw angles, both ``(N, 9)``: Gaussian wakes that yaw deflects."""
    end = time.perf_counter() + PER_CALL + PER_CASE * len(yaw)
    angle = np.radians(yaw)
    width = 0.5 + 0.05 * np.abs(_DOWN)
    centre = _ACROSS - 0.3 * np.sin(angle)[:, :, None] * _DOWN
    deficit = 0.5 * np.cos(angle)[:, :, None] / (1 + 0.1 * np.abs(_DOWN)) * np.exp(-((centre / width) ** 2) / 2)
    wind = 1 - np.sqrt((np.where(_BEHIND, deficit, 0.0) ** 2).sum(axis=1))
    produced = wind**3 * np.cos(angle) ** 1.8
    while time.perf_counter() < end:  # a solver would be busy
        pass
    return produced


def network() -> fx.InfluenceNetwork:
    """Return the network: a turbine influences its own power and that of the turbines behind it."""
    return fx.InfluenceNetwork(np.eye(TURBINES) + _BEHIND)


def rows() -> Iterator[Row]:
    farm = fx.integrations.from_batched(power, network(), num_envs=CASES, action_space=YAW)
    model = fx.FactoredPPO(farm, n_steps=STEPS, batch_size=256, critic="target", check_network=False)
    yaw = np.zeros((CASES, TURBINES), np.float32)

    def train() -> None:
        model.learn(CASES * STEPS, reset_num_timesteps=False, progress_bar=False)

    def bare() -> None:
        for _ in range(STEPS):
            power(yaw)

    def one_by_one() -> None:
        for row in yaw[:STEPS]:
            power(row[None])

    ours, batched, single = medians(train, bare, one_by_one, repeats=15)
    model.close()
    name, count = "wind farm, 64 cases a call, training", CASES * STEPS
    yield at_least(name, count / ours, count / batched, "bare calls", 0.8, "cases/s")
    yield at_least(name, count / ours, STEPS / single, "bare calls of one case", 20.0, "cases/s")
