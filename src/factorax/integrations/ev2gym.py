"""EV2Gym as a problem: 25 charging points behind five transformers, with a target for each interest at stake.

EV2Gym (github.com/StavrosOrf/EV2Gym) simulates cars that arrive, want to be charged, and leave. `Chargers` is its
scenario V2GProfitPlusLoads, the car park of a workplace, with five transformers instead of one. Every charger sets how
fast to charge or discharge, from −1 to 1, at every quarter of an hour of a day of 28 hours. The 55 targets are:

- the profit of every charger, negative where energy is bought;
- what its cars lack as they leave: 100 euros if one is empty, 0 if it is as full as desired;
- the overload of every transformer by its chargers, its houses and its solar panels together, 100 euros per kW.

All are in euros, with weights of one: if the hundreds were weights, the critic's targets would be too small for it.

**K = [I | I | M]** with M the map from chargers to transformers. It is exact for *returns*, not only for rewards: cars
come and go whatever is done to them, and prices, houses and sun do not answer either. All that an action leaves behind
is therefore the battery of its own car. That moves the charger's own profit and satisfaction, now and later, and the
load of its own transformer, and nothing else, **if no other charger reacts to it**. That is why `Chargers.local` gives
a charger its own car, its own transformer's forecast and limit, the prices and the time, but not the power that all
chargers drew together, the second entry of EV2Gym's observation.

What to know about EV2Gym, and what is done about it here:

- It sets the *global* seeds of NumPy and Python, which are restored. It writes into actions, and so gets a copy.
- Its time limit is reported as termination. Here a day really ends: all cars have left, and the time is observed. The
  value after the last step is 0, and ``bootstrap="never"`` says so.
- Ports are idle most of the time. ``info["factor_mask"]`` says where a car stood *before* the step.
- It takes 10 s to build and half a second to start a day, mostly for dates: it is built once, and days are kept.

It needs packages that it does not declare: ``pip install 'factorax[ev2gym]'``.
"""

import copy
import functools
import random
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from .._lazy import import_quietly
from ..structure import InfluenceNetwork

CHARGERS, TRANSFORMERS, HORIZON = 25, 5, 20
PER_USER = PER_KW = 100.0  # euros
TRAINING, HELD_OUT = range(100), range(2000, 2020)  # days, by number


def need(module: str) -> Any:
    """Imports a module of EV2Gym, or of a package that it needs."""
    try:
        return import_quietly(module)
    except ImportError as error:
        raise ImportError(f"EV2Gym: cannot import {module} ({error}); pip install 'factorax[ev2gym]'") from error


@contextmanager
def global_seeds_kept() -> Iterator[None]:
    """Restore the generators of NumPy and Python, which EV2Gym seeds."""
    numpy, python = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(numpy)  # noqa: NPY002
        random.setstate(python)


def objective(simulator: Any, profit: float, satisfaction: list[float], *_: Any) -> float:
    """Return the reward as EV2Gym computes it: the scalar that the targets must sum to."""
    overload = sum(transformer.get_how_overloaded() for transformer in simulator.transformers)
    return profit - PER_USER * sum(1 - score for score in satisfaction) - PER_KW * overload


@functools.cache
def car_park() -> Any:
    """Return the simulator, built once: chargers, and transformers with their own houses and solar panels."""
    need("ev2gym")
    package = resources.files("ev2gym")
    config = need("yaml").safe_load((package / "example_config_files" / "V2GProfitPlusLoads.yaml").read_text())
    config |= {"number_of_charging_stations": CHARGERS, "number_of_transformers": TRANSFORMERS}
    config["ev_specs_file"] = str(package / "data" / "ev_specs_v2g_enabled2024.json")  # theirs is a relative path
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"), global_seeds_kept():
        (path := Path(folder) / "config.yaml").write_text(need("yaml").safe_dump(config))
        state_function = need("ev2gym.rl_agent.state").V2G_profit_max_loads
        functions = {"state_function": state_function, "reward_function": objective}
        return need("ev2gym.models.ev2gym_env").EV2Gym(str(path), seed=0, lightweight_plots=True, **functions)


@functools.cache
def morning(day: int) -> Any:
    """Return the simulator at the start of a day; the number of the day determines its date, prices and cars."""
    simulator = copy.deepcopy(car_park())
    with global_seeds_kept():
        simulator.reset(seed=day)
    simulator.price_data = None  # prices of ten years, no longer needed
    return simulator


def influence(transformer_of: np.ndarray) -> InfluenceNetwork:
    """Return K = [I | I | M], from charger i to its profit, its cars' satisfaction and its transformer."""
    sizes = {"profit": CHARGERS, "satisfaction": CHARGERS, "overload": TRANSFORMERS}
    matrix = np.hstack([np.eye(CHARGERS), np.eye(CHARGERS), np.eye(TRANSFORMERS)[transformer_of]])
    targets = [f"{name}{j}" for name, size in sizes.items() for j in range(size)]
    return InfluenceNetwork(matrix, [f"charger{i}" for i in range(CHARGERS)], targets)


def local_indices(transformer_of: np.ndarray) -> np.ndarray:
    """Return the indices in EV2Gym's observation of what charger i may see, ``(n, l)``.

    The observation is the time, the power of all chargers, prices to come; then for every transformer the load and the
    limits to come, and for each of its chargers how full its car is and when it leaves.
    """
    rows, offset = {}, 2 + HORIZON
    for k in range(TRANSFORMERS):
        signals = [0, *range(2, 2 + HORIZON), *range(offset, offset + 2 * HORIZON)]
        offset += 2 * HORIZON
        for i in np.flatnonzero(transformer_of == k):
            rows[i] = [*signals, offset, offset + 1]
            offset += 2
    return np.array([rows[i] for i in range(CHARGERS)])


class Chargers(gym.Env):
    """The car park as an environment for `FactoredPPO`.

    An episode is one of `days`, or the one in ``options={"day": 7}``.
    """

    action_space = gym.spaces.Box(-1.0, 1.0, (CHARGERS,), np.float32)
    weights = np.ones(2 * CHARGERS + TRANSFORMERS)

    def __init__(self, days: Sequence[int] = TRAINING):
        self.days, self.simulator = days, car_park()
        transformer_of = np.array([int(charger.connected_transformer) for charger in self.simulator.charging_stations])
        self.network, self.indices = influence(transformer_of), local_indices(transformer_of)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, self.simulator.observation_space.shape, np.float32)

    def local(self, obs: Any) -> Any:
        """Return what every charger sees, ``(..., n, l)``, from observations ``(..., d)``."""
        return obs[..., self.indices]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start a day."""
        super().reset(seed=seed)
        day = (options or {}).get("day", self.days[int(self.np_random.integers(len(self.days)))])
        self.simulator = copy.deepcopy(morning(day))
        return np.asarray(self.simulator._get_observation(), np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Simulates a quarter of an hour."""
        simulator, chargers = self.simulator, self.simulator.charging_stations
        mask = np.array([charger.n_evs_connected > 0 for charger in chargers])
        before = np.array([charger.total_profits for charger in chargers], np.float64)
        obs, reward, terminated, truncated, _ = simulator.step(
            np.array(action, np.float64)
        )  # a copy: EV2Gym writes to it
        profit = np.array([charger.total_profits for charger in chargers], np.float64) - before
        satisfaction = np.zeros(CHARGERS)
        for car in simulator.departing_evs:
            satisfaction[car.location] -= PER_USER * (1 - car.get_user_satisfaction())
        overload = [-PER_KW * float(transformer.get_how_overloaded()) for transformer in simulator.transformers]
        psi = np.concatenate([profit, satisfaction, overload])
        info = {"vector_reward": psi, "factor_mask": mask, "simulator_reward": float(reward)}
        return np.asarray(obs, np.float32), float(self.weights @ psi), bool(terminated), bool(truncated), info
