"""EV2Gym: 25 charging points behind five transformers, with a target for everything that somebody cares about.

EV2Gym (github.com/StavrosOrf/EV2Gym) simulates cars that come, want to be charged, and leave. Here it is its scenario
V2GProfitPlusLoads, a car park of a workplace, with five transformers instead of one. Every charger says how fast to
charge or discharge, from −1 to 1, at every quarter of an hour of a day of 28 hours. The targets, 55 of them:

- the profit of every charger, negative where energy is bought;
- what its cars lack as they leave, 100 euros if one is empty and nought if it is as full as desired;
- the overload of every transformer by its chargers, its houses and its solar panels together, 100 euros a kW.

All are in euros, with weights of one: were the hundreds weights, the critic's targets would be too small for it.

**K = [I | I | M]** with M the map from chargers to transformers. It is exact for *returns*, not just for rewards: cars
come and go whatever is done to them, and prices, houses and sun do not answer either. So all that an action leaves
behind is the battery of its own car. That moves the charger's own profit and satisfaction, now and later, and the load
of its own transformer, and nothing else, **if no other charger reacts to it**. That is why `local` gives a charger its
own car, its own transformer's forecast and limit, the prices and the time, but not the power that all chargers drew
together, the second entry of EV2Gym's observation. `check` shows both by intervention: with local policies
nothing outside a charger's row moves, not in the last bit; with a policy that sees everything most of it does.

What to know of EV2Gym, and what is done about it here:

- It sets the *global* seeds of NumPy and Python, which are put back. It writes into actions, and so gets a copy.
- Its time limit is reported as termination. Here a day really ends: all cars have left, and the time is observed. So
  what follows is worth nought, and ``bootstrap="never"`` says so.
- Ports are idle most of the time. ``info["factor_mask"]`` says where a car stood *before* the step.
- It takes 10 s to build and half a second to begin a day, mostly for dates: it is built once, and days are kept.

It needs packages that it does not declare: ``pip install 'factorax[ev2gym]'``, and 'factorax[bench]' for `compare`.

    python examples/ev2gym_chargers.py check  # or heuristics
    python examples/ev2gym_chargers.py train --estimator factored --seed 0 --steps 24000
    python examples/ev2gym_chargers.py compare --steps 24000 --out examples/data/ev2gym.json
"""

import copy
import functools
import itertools
import json
import random
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
import tyro
import yaml

import factorax as fx
from factorax.learning import comparing

with warnings.catch_warnings(action="ignore"):  # it uses what setuptools calls deprecated
    from ev2gym.baselines import heuristics as of_the_package  # pyright: ignore[reportMissingImports]
    from ev2gym.models.ev2gym_env import EV2Gym  # pyright: ignore[reportMissingImports]
    from ev2gym.rl_agent.state import V2G_profit_max_loads  # pyright: ignore[reportMissingImports]

CHARGERS, TRANSFORMERS, HORIZON = 25, 5, 20
PER_USER = PER_KW = 100.0  # euros
TRAINING, HELD_OUT = range(100), range(2000, 2020)  # days, by number

# The simulator --------------------------------------------------------------------------------------------------------


@contextmanager
def global_seeds_kept() -> Iterator[None]:
    """Put the generators of NumPy and Python back as they were before EV2Gym seeded them."""
    numpy, python = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(numpy)  # noqa: NPY002
        random.setstate(python)


def objective(simulator: Any, profit: float, satisfaction: list[float], *_: Any) -> float:
    """The reward as EV2Gym adds it up: the scalar that our parts must sum to."""
    overload = sum(transformer.get_how_overloaded() for transformer in simulator.transformers)
    return profit - PER_USER * sum(1 - score for score in satisfaction) - PER_KW * overload


@functools.cache
def car_park() -> Any:
    """The simulator as built, once: chargers, and transformers with houses and solar panels of their own."""
    package = resources.files("ev2gym")
    config = yaml.safe_load((package / "example_config_files" / "V2GProfitPlusLoads.yaml").read_text())
    config |= {"number_of_charging_stations": CHARGERS, "number_of_transformers": TRANSFORMERS}
    config["ev_specs_file"] = str(package / "data" / "ev_specs_v2g_enabled2024.json")  # theirs is a relative path
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"), global_seeds_kept():
        (path := Path(folder) / "config.yaml").write_text(yaml.safe_dump(config))
        functions = {"state_function": V2G_profit_max_loads, "reward_function": objective}
        return EV2Gym(str(path), seed=0, lightweight_plots=True, **functions)


@functools.cache
def morning(day: int) -> Any:
    """The simulator as a day begins. The number of the day stands for its date, its prices and its cars."""
    simulator = copy.deepcopy(car_park())
    with global_seeds_kept():
        simulator.reset(seed=day)
    simulator.price_data = None  # of ten years; it has taken what it needs
    return simulator


# The environment ------------------------------------------------------------------------------------------------------


def influence(transformer_of: np.ndarray) -> fx.InfluenceNetwork:
    """K = [I | I | M], from charger i to its profit, its cars' satisfaction and its transformer."""
    sizes = {"profit": CHARGERS, "satisfaction": CHARGERS, "overload": TRANSFORMERS}
    matrix = np.hstack([np.eye(CHARGERS), np.eye(CHARGERS), np.eye(TRANSFORMERS)[transformer_of]])
    targets = [f"{name}{j}" for name, size in sizes.items() for j in range(size)]
    return fx.InfluenceNetwork(matrix, [f"charger{i}" for i in range(CHARGERS)], targets)


def seen_by(transformer_of: np.ndarray) -> np.ndarray:
    """Where in EV2Gym's observation stands what charger i may see, ``(n, l)``.

    The observation is the time, the power of all chargers, prices to come; then for every transformer the load and the
    limits to come, and for each of its chargers how full its car is and when it leaves.
    """
    rows, start = {}, 2 + HORIZON
    for k in range(TRANSFORMERS):
        signals = [0, *range(2, 2 + HORIZON), *range(start, start + 2 * HORIZON)]
        start += 2 * HORIZON
        for i in np.flatnonzero(transformer_of == k):
            rows[i] = [*signals, start, start + 1]
            start += 2
    return np.array([rows[i] for i in range(CHARGERS)])


class Chargers(gym.Env):
    """The car park as `FactoredPPO` takes it. An episode is one of `days`, or the one in ``options={"day": 7}``."""

    action_space = gym.spaces.Box(-1.0, 1.0, (CHARGERS,), np.float32)
    weights = np.ones(2 * CHARGERS + TRANSFORMERS)

    def __init__(self, days: Sequence[int] = TRAINING):
        self.days, self.simulator = days, car_park()
        transformer_of = np.array([int(charger.connected_transformer) for charger in self.simulator.charging_stations])
        self.network, self._seen = influence(transformer_of), seen_by(transformer_of)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, self.simulator.observation_space.shape, np.float32)

    def local(self, obs: Any) -> Any:
        """From observations ``(..., d)`` to what every charger sees, ``(..., n, l)``."""
        return obs[..., self._seen]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a day."""
        super().reset(seed=seed)
        day = (options or {}).get("day", self.days[int(self.np_random.integers(len(self.days)))])
        self.simulator = copy.deepcopy(morning(day))
        return np.asarray(self.simulator._get_observation(), np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """A quarter of an hour."""
        simulator, chargers = self.simulator, self.simulator.charging_stations
        mask = np.array([charger.n_evs_connected > 0 for charger in chargers])
        before = np.array([charger.total_profits for charger in chargers], np.float64)
        obs, reward, terminated, truncated, _ = simulator.step(np.array(action, np.float64))  # a copy: it writes to it
        profit = np.array([charger.total_profits for charger in chargers], np.float64) - before
        satisfaction = np.zeros(CHARGERS)
        for car in simulator.departing_evs:
            satisfaction[car.location] -= PER_USER * (1 - car.get_user_satisfaction())
        overload = [-PER_KW * float(transformer.get_how_overloaded()) for transformer in simulator.transformers]
        psi = np.concatenate([profit, satisfaction, overload])
        info = {"vector_reward": psi, "factor_mask": mask, "simulator_reward": float(reward)}
        return np.asarray(obs, np.float32), float(self.weights @ psi), bool(terminated), bool(truncated), info


# Is K exact? ----------------------------------------------------------------------------------------------------------


def moved(env: Chargers, day: int, *, is_local: bool = True, seed: int = 0) -> np.ndarray:
    """Which targets move if one charger acts differently and all others follow their policies, ``(n, m)`` of booleans.

    The policy is a random function of what a charger sees, or of everything. Day and noise are the same throughout.
    """
    rng = np.random.default_rng(seed)
    noise, other = rng.normal(size=(2, 112, CHARGERS))
    index = env._seen if is_local else np.tile(range(*env.simulator.observation_space.shape), (CHARGERS, 1))
    mixing = rng.normal(size=index.shape) / np.sqrt(index.shape[1])

    def play(different: int | None) -> np.ndarray:
        (obs, _), rewards, ended = env.reset(options={"day": day}), [], False
        while not ended:
            seen = obs[index].astype(float)
            logits = (mixing * seen / (1 + np.abs(seen))).sum(axis=1) + noise[len(rewards)]
            if different is not None:
                logits[different] = other[len(rewards), different]
            obs, _, ended, _, info = env.step(np.tanh(logits))
            rewards.append(info["vector_reward"])
        return np.array(rewards)

    usual = play(None)
    return np.array([(play(i) != usual).any(axis=0) for i in range(CHARGERS)])


def check() -> None:
    """Intervene on every charger, with common random numbers, and compare what moved with K."""
    fx.check_problem(Chargers)
    env = Chargers()
    edges = env.network.to_dense() > 0
    for name, is_local in (("local policies", True), ("a policy that sees everything", False)):
        found = np.any([moved(env, day, is_local=is_local, seed=day) for day in range(3)], axis=0)
        print(f"{name}: {(found & edges).sum()} of {edges.sum()} edges moved, {(found & ~edges).sum()} others")


# Learning -------------------------------------------------------------------------------------------------------------

Method = Literal["factored", "complete", "vanilla", "sb3"]
"""With K; all edges, a ratio for every charger; all edges, the joint ratio; Stable-Baselines3."""
PPO = {"n_steps": 112, "batch_size": 128, "n_epochs": 5, "learning_rate": 1e-3, "gae_lambda": 0.99}
N_ENVS, DISCOUNT, LOG_STD = 8, 0.995, -1.0
OURS = {"n_envs": N_ENVS, "discount": DISCOUNT, "initial_log_std": LOG_STD, "policy": "shared"}
OURS |= {"normalise_obs": True, "normalise_reward": True, "bootstrap": "never"}
Act = Callable[[Chargers, np.ndarray], np.ndarray]


def evaluate(act: Act, days: Sequence[int] = HELD_OUT) -> dict[str, float]:
    """The mean return of days that nobody trained on, and what it is made of."""
    env, total = Chargers(), np.zeros(len(Chargers.weights))
    for day in days:
        (obs, _), ended = env.reset(options={"day": day}), False
        while not ended:
            obs, _, ended, _, info = env.step(act(env, obs))
            total += info["vector_reward"] / len(days)
    profit, users, overload = (float(part.sum()) for part in np.split(total, [CHARGERS, 2 * CHARGERS]))
    return {"return": profit + users + overload, "profit": profit, "users": users, "overload": overload}


def heuristics() -> dict[str, dict[str, float]]:
    """The policies that come with EV2Gym; none of them looks at prices or transformers."""
    results = {}
    for name in ("ChargeAsFastAsPossible", "ChargeAsLateAsPossible", "DoNothing", "RandomAgent"):
        policy = getattr(of_the_package, name)()
        with global_seeds_kept():
            np.random.seed(0)  # noqa: NPY002
            results[name] = evaluate(lambda env, obs, policy=policy: policy.get_action(env.simulator))
        print(f"{name:<34}" + "".join(f"{key} {value:8.1f}  " for key, value in results[name].items()))
    return results


def train(estimator: Method = "factored", seed: int = 0, steps: int = 24_000) -> dict[str, Any]:
    """Train with one method and one seed; evaluate the most probable actions on days that were held out."""
    started, result = time.perf_counter(), {"method": estimator, "seed": seed}
    act = train_theirs(seed, steps) if estimator == "sb3" else train_ours(estimator, seed, steps, result)
    result |= {"seconds": round(time.perf_counter() - started), **evaluate(act)}
    print("  ".join(f"{key} {round(value, 1) if isinstance(value, float) else value}" for key, value in result.items()))
    return result


def train_ours(estimator: Method, seed: int, steps: int, result: dict[str, Any]) -> Act:
    """One policy for all chargers, of what each sees; all edges unless it is K that is asked for."""
    settings = PPO | OURS | {"seed": seed, "estimator": "vanilla" if estimator == "vanilla" else "factored"}
    settings["variance_report"] = estimator == "factored"
    network = None if estimator == "factored" else fx.InfluenceNetwork.complete(CHARGERS, len(Chargers.weights))
    model = fx.FactoredPPO(Chargers, network, **settings)
    model.learn(steps, progress_bar=False)
    if "variance/ratio" in model.history[0]:
        result["variance_ratio"] = float(np.median([row["variance/ratio"] for row in model.history]))
    return lambda env, obs: model.predict(obs, deterministic=True)


def train_theirs(seed: int, steps: int) -> Act:
    """Stable-Baselines3 with the same settings, on the scalar reward and the whole observation."""
    import torch  # pyright: ignore[reportMissingImports]
    from stable_baselines3 import PPO as TheirPPO  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.env_util import make_vec_env  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.vec_env import VecNormalize  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)  # small networks: on busy cores more are slower
    envs = VecNormalize(make_vec_env(Chargers, n_envs=N_ENVS, seed=seed), gamma=DISCOUNT)
    settings: dict[str, Any] = PPO | {"gamma": DISCOUNT, "policy_kwargs": {"log_std_init": LOG_STD}}
    model = TheirPPO("MlpPolicy", envs, seed=seed, device="cpu", **settings).learn(steps)
    return lambda env, obs: model.predict(envs.normalize_obs(obs), deterministic=True)[0]


def compare(seeds: int = 5, steps: int = 24_000, out: Path = Path("ev2gym.json")) -> None:
    """All methods with the same seeds and days; a file, written after every run, and a table with 95 % intervals."""
    baselines, runs = heuristics(), []
    for seed, method in itertools.product(range(seeds), get_args(Method)):
        runs.append(train(method, seed, steps))
        out.write_text(json.dumps({"steps": steps, "runs": runs, "heuristics": baselines}, indent=1) + "\n")
    returns = {name: [run["return"] for run in runs if run["method"] == name] for name in get_args(Method)}
    for name, each in returns.items():
        x, p = comparing.iqm(each), comparing.probability_of_improvement(returns["factored"], each)
        better = "" if name == "factored" else f"factored is better: {p.mean:.2f} [{p.low:.2f}, {p.high:.2f}]"
        print(f"{name:<12}{x.mean:8.0f} [{x.low:.0f}, {x.high:.0f}]   {better}")


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"check": check, "heuristics": heuristics, "train": train, "compare": compare})
