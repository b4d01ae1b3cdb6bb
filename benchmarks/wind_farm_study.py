"""Compare networks on nine wind turbines whose wakes turn with the wind.

    python -m benchmarks.wind_farm_study   # every run that benchmarks/wind_farm_study.json lacks; then the table

The wind comes from one of four directions, with a small deviation, and determines which turbine is in whose wake. The
gain is the power in per cent above that of turbines that face the wind.
"""

import json
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

import factorax as fx
from factorax.problems import Problem, Step

STORED = Path(__file__).with_suffix(".json")
SEEDS, ROLLOUTS, EVERY = range(5), 100, 20
TURBINES, NOISE, BATCH = 9, 0.1, 64 * 4
SETTINGS: dict[str, Any] = {
    "policy": "joint", "critic": "target", "n_envs": 64, "n_steps": 4, "batch_size": 64, "n_epochs": 4, "hidden": (32,),
    "learning_rate": 3e-3, "distribution": "scale,initial_log_std=-1.0", "check_network": False,
}  # fmt: skip
_PLACES = 4.0 * np.stack(np.meshgrid(np.arange(3.0), np.arange(3.0)), axis=-1).reshape(-1, 2)  # in diameters


def _geometry(direction: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the distances of turbine j from turbine i, downwind and crosswind, both ``(..., 9, 9)``."""
    apart = jnp.asarray(_PLACES[None] - _PLACES[:, None], jnp.float32)
    x, y = apart[..., 0], apart[..., 1]
    cos, sin = jnp.cos(direction)[..., None, None], jnp.sin(direction)[..., None, None]
    return cos * x + sin * y, cos * y - sin * x


def power(direction: jax.Array, yaw: jax.Array) -> jax.Array:
    """Return the power of each turbine, ``(9,)``, for yaw in units of 30°: Gaussian wakes that yaw deflects."""
    down, across = _geometry(direction)
    angle = jnp.radians(30.0) * yaw
    behind = down > 0.1
    distance = jnp.where(behind, down, 1.0)
    centre = across - 0.5 * jnp.sin(angle)[:, None] * distance
    width = 0.5 + 0.05 * distance
    deficit = 0.6 * jnp.cos(angle)[:, None] / (1 + 0.1 * distance) * jnp.exp(-((centre / width) ** 2) / 2)
    wind = 1 - jnp.sqrt((jnp.where(behind, deficit, 0.0) ** 2).sum(axis=0) + 1e-12)
    return wind**3 * jnp.cos(angle) ** 1.8


def influence(obs: Any, info: Any) -> Any:
    """Return K of a state: a turbine influences itself and the turbines in its wake, two diameters to either side."""
    down, across = _geometry(jnp.arctan2(obs[..., 1], obs[..., 0]))
    return ((down > 0.1) & (jnp.abs(across) < 2.0) | jnp.eye(TURBINES, dtype=bool)).astype(jnp.float32)


def farm() -> Problem:
    """Return a problem with episodes of one step: observe the wind, choose the yaw of all turbines, get their power
    with turbulence."""

    def reset(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        which, jitter = jax.random.split(key)
        angle = jnp.pi / 2 * jax.random.randint(which, (), 0, 4) + jnp.radians(8.0) * jax.random.normal(jitter)
        return angle, jnp.stack([jnp.cos(angle), jnp.sin(angle)])

    def step(key: jax.Array, state: jax.Array, action: jax.Array) -> Step:
        psi = power(state, action) + NOISE * jax.random.normal(key, (TURBINES,))
        obs = jnp.stack([jnp.cos(state), jnp.sin(state)])
        return Step(state=state, obs=obs, psi=psi, terminated=jnp.array(True), truncated=jnp.array(False))

    return Problem(
        name="wind farm",
        reset=reset,
        step=step,
        observation_space=gym.spaces.Box(-1.0, 1.0, (2,), np.float32),
        action_space=gym.spaces.Box(-1.0, 1.0, (TURBINES,), np.float32),
        network=fx.InfluenceNetwork.complete(TURBINES, TURBINES),
        weights=np.ones(TURBINES),
    )


def networks() -> dict[str, Any]:
    """Return the networks by name."""
    complete = fx.InfluenceNetwork.complete(TURBINES, TURBINES)
    edges = [[-0.5, 0.5], [-0.5, 0.5]]
    return {
        "complete": complete,
        "adaptive": fx.AdaptiveNetwork(complete),
        "adaptive by state": fx.ppo.AdaptiveStateNetwork.bins(complete, [0, 1], edges),
        "written by hand": fx.StateNetwork(influence, complete),
    }


def gain(model: fx.FactoredPPO) -> float:
    """Return the gain in per cent over 256 winds, without exploration."""
    problem = farm()
    states, obs = jax.vmap(problem.reset)(jax.random.split(jax.random.key(10**6), 256))
    yaw = np.clip(np.asarray(model.predict(np.asarray(obs), deterministic=True)[0]), -1, 1)
    produced = jax.vmap(power)(states, jnp.asarray(yaw)).sum()
    return float(100 * (produced / jax.vmap(power)(states, jnp.zeros((256, TURBINES))).sum() - 1))


def train(name: str, seed: int) -> dict[str, Any]:
    """Train; return the gain after every `EVERY` rollouts, and the edges at the end."""
    network = networks()[name]
    model = fx.FactoredPPO(farm(), network, seed=seed, **SETTINGS)
    curve = [gain(model)]
    for _ in range(ROLLOUTS // EVERY):
        model.learn(BATCH * EVERY, reset_num_timesteps=False, progress_bar=False)
        curve.append(gain(model))
    result: dict[str, Any] = {"gain": [round(each, 3) for each in curve]}
    if isinstance(network, fx.ppo.AdaptiveStateNetwork):
        matrices = [each.to_dense() > 0 for each in network.of_regimes(model.state.network)]
        result["edges"] = [int(each.sum()) for each in matrices]
    elif name == "adaptive":
        result["edges"] = [int(model.network.n_edges)]
    return result


def main() -> int:
    """Train the missing runs and print the table."""
    stored: dict[str, Any] = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    for name in networks():
        for seed in SEEDS:
            if str(seed) not in stored.setdefault(name, {}):
                stored[name][str(seed)] = train(name, seed)
                STORED.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    shown = [1, 2, 5]
    print("| network | " + " | ".join(f"{each * EVERY * BATCH:,} steps" for each in shown) + " |")
    print("|---|" + "---:|" * len(shown))
    for name, runs in stored.items():
        curves = np.array([each["gain"] for each in runs.values()])
        cells = [f"{curves[:, k].mean():.2f} ({curves[:, k].min():.2f} to {curves[:, k].max():.2f})" for k in shown]
        print(f"| {name} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
