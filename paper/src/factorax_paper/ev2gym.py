"""EV2Gym as a problem: 25 charging points behind five transformers, with one target per interest.

EV2Gym (github.com/StavrosOrf/EV2Gym) simulates cars that arrive, are charged, and leave. `Chargers` is its scenario
V2GProfitPlusLoads, the car park of a workplace, with five transformers instead of one. Each charger sets its rate of
charging or discharging, from −1 to 1, every 15 minutes of a day of 28 hours. The 55 targets are:

- the profit of each charger, negative if energy is bought;
- the missing charge of its cars at departure: 100 euros if a car is empty, 0 if it is charged as desired;
- the overload of each transformer by its chargers, houses and solar panels together, 100 euros per kW.

All targets are in euros with weights of one: if the factors of 100 were weights, the targets of the critic would be too
small.

**K = [I | I | M]**, where M maps chargers to transformers. It is exact for *returns*, not only for rewards: arrivals
and departures do not depend on actions, nor do prices, houses and sun. The only lasting effect of an action is
therefore on the battery of its own car. This changes the profit and satisfaction of the same charger, now and later,
and the load of its transformer, and nothing else, **if no other charger reacts to it**. Therefore `Chargers.local`
shows a charger its own car, the forecast and limit of its transformer, the prices and the time, but not the total
power of all chargers, which is the second entry of EV2Gym's observation.

Properties of EV2Gym that are handled here:

- It sets the *global* seeds of NumPy and Python, which are restored. It writes into actions, and therefore gets a copy.
- A day ends with termination, not truncation: all cars have left, and the time is observed, so the value after the
  last step is 0.
- Ports are idle most of the time. ``info["factor_mask"]`` tells where a car stood *before* the step.
- It takes 10 s to build and half a second to start a day, mostly for dates: it is built once, and days are cached.

It needs packages that it does not declare: ``pip install 'factorax-paper[ev2gym]'``.
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

from factorax._lazy import import_quietly
from factorax.structure import InfluenceNetwork

CHARGERS, TRANSFORMERS, HORIZON = 25, 5, 20
PER_USER = PER_KW = 100.0  # euros
TRAINING, HELD_OUT = range(100), range(2000, 2020)  # indices of days


def need(module: str) -> Any:
    """Import a module of EV2Gym, or of a package that it needs."""
    try:
        return import_quietly(module)
    except ImportError as error:
        raise ImportError(f"EV2Gym: cannot import {module} ({error}); pip install 'factorax-paper[ev2gym]'") from error


@contextmanager
def global_seeds_kept() -> Iterator[None]:
    """Restore the global generators of NumPy and Python, which EV2Gym seeds."""
    numpy, python = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(numpy)  # noqa: NPY002
        random.setstate(python)


def objective(simulator: Any, profit: float, satisfaction: list[float], *_: Any) -> float:
    """Return the scalar reward as computed by EV2Gym, to which the targets must add up."""
    overload = sum(transformer.get_how_overloaded() for transformer in simulator.transformers)
    return profit - PER_USER * sum(1 - score for score in satisfaction) - PER_KW * overload


@functools.cache
def car_park() -> Any:
    """Return the simulator, built once: chargers, and transformers with houses and solar panels."""
    need("ev2gym")
    package = resources.files("ev2gym")
    config = need("yaml").safe_load((package / "example_config_files" / "V2GProfitPlusLoads.yaml").read_text())
    config |= {"number_of_charging_stations": CHARGERS, "number_of_transformers": TRANSFORMERS}
    # EV2Gym's default is a relative path
    config["ev_specs_file"] = str(package / "data" / "ev_specs_v2g_enabled2024.json")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"), global_seeds_kept():
        (path := Path(folder) / "config.yaml").write_text(need("yaml").safe_dump(config))
        state_function = need("ev2gym.rl_agent.state").V2G_profit_max_loads
        functions = {"state_function": state_function, "reward_function": objective}
        return need("ev2gym.models.ev2gym_env").EV2Gym(str(path), seed=0, lightweight_plots=True, **functions)


@functools.cache
def morning(day: int) -> Any:
    """Return the simulator at the start of a day; its index determines date, prices and cars."""
    simulator = copy.deepcopy(car_park())
    with global_seeds_kept():
        simulator.reset(seed=day)
    simulator.price_data = None  # ten years of prices, no longer needed
    return simulator


def influence(transformer_of: np.ndarray) -> InfluenceNetwork:
    """Return K = [I | I | M], from charger i to its profit, the satisfaction of its cars, and its transformer."""
    sizes = {"profit": CHARGERS, "satisfaction": CHARGERS, "overload": TRANSFORMERS}
    matrix = np.hstack([np.eye(CHARGERS), np.eye(CHARGERS), np.eye(TRANSFORMERS)[transformer_of]])
    targets = [f"{name}{j}" for name, size in sizes.items() for j in range(size)]
    return InfluenceNetwork(matrix, [f"charger{i}" for i in range(CHARGERS)], targets)


def local_indices(transformer_of: np.ndarray) -> np.ndarray:
    """Return the indices of the local observation of charger i in EV2Gym's observation, ``(n, l)``.

    The observation has the time, the total power of all chargers and future prices; then for each transformer the
    future load and limits, and for each of its chargers the state of charge and departure time of its car.
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
        """Return the local observation of each charger, ``(..., n, l)``, from observations ``(..., d)``."""
        return obs[..., self.indices]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start a day."""
        super().reset(seed=seed)
        day = (options or {}).get("day", self.days[int(self.np_random.integers(len(self.days)))])
        self.simulator = copy.deepcopy(morning(day))
        return np.asarray(self.simulator._get_observation(), np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Simulate 15 minutes."""
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
        return np.asarray(obs, np.float32), float(self.weights @ psi), bool(terminated or truncated), False, info
