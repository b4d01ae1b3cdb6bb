"""The lane simulator as a JAX problem."""

from dataclasses import dataclass, fields
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from factorax._checks import check_options
from factorax.problems.problem import Problem, Step
from factorax.structure import InfluenceNetwork
from factorax.structure.network import as_network

from .lane_simulator import LaneSimulator
from .lane_state import Lanes
from .observations import observe
from .settings import Traffic
from .signals import Signals


@dataclass(frozen=True, eq=False, kw_only=True)
class LaneProblem(Problem):
    """The benchmark in the lane simulator, created by `lanes`."""

    simulator: LaneSimulator

    @property
    def neighbours(self) -> np.ndarray:
        """Which lights are connected by a street, booleans ``(n, n)``."""
        return self.simulator.traffic.grid.adjacency

    def influence(self, preset: Any = "incident", value: Any = None, **options: Any) -> Any:
        """Return a network for the targets of this problem, as `Traffic.influence` does."""
        return self.simulator.traffic.influence(preset, value, **options)


def lanes(
    rows: int = 3,
    columns: int = 3,
    *,
    network: str | InfluenceNetwork = "incident",
    slots: int | None = None,
    dtype: Any = jnp.float32,
    **settings: Any,
) -> LaneProblem:
    """Return the benchmark in the lane simulator, for `FactoredPPO` and other JAX learners.

    - **Observation**: joint, ``Box(0, 3)`` of length 24n + 2m + 3n; `local` extracts 42 numbers per light.
    - **Action**: the lights to switch, ``MultiBinary(n)`` or ``Box(−1, 1)``.
    - **Targets**: minus the delay on each street, and −0.2 per standing car; or the same per light.
    - **End**: truncated after `horizon` steps.

    **Arguments**

    - `network`: a preset of `influence`, or an influence network.
    - `slots`, `dtype`: as for `LaneSimulator`.
    - `settings`: those of `Traffic`.

    >>> lanes(2, 6).network
    InfluenceNetwork(12 actions → 64 targets, 96 edges, density 0.125)
    """
    check_options(settings, (field.name for field in fields(Traffic) if field.init), "traffic")
    traffic = Traffic(rows, columns, **settings)
    simulator = LaneSimulator(traffic, slots=slots, dtype=dtype)
    space = traffic.observation_space
    used = traffic.influence(network) if isinstance(network, str) else as_network(network, "network")
    if (want := (traffic.grid.n_lights, traffic.n_targets)) != used.static.shape:
        raise ValueError(f"network: got shape {used.static.shape}, want {want}, one row per light")

    def first(key: jax.Array) -> tuple[Lanes, jax.Array]:
        state = simulator.reset(key)
        if simulator.looks_up:  # a GPU would compute the readings in every step of a rollout
            return state, jnp.asarray(
                observe(traffic.grid, simulator.first_readings, Signals.start(traffic.grid.n_lights))
            )
        return state, observe(traffic.grid, simulator.read(simulator.visible(state)), state.signals, jnp)

    def reset(key: jax.Array) -> tuple[Lanes, jax.Array]:
        return jax.jit(first)(key)  # compiled as a whole, in less than half the time of its operations one by one

    def step(key: jax.Array, state: Lanes, action: jax.Array) -> Step:
        state = simulator.step(state, action > 0)
        readings = simulator.read(state)
        psi = jnp.where(simulator.invalid(state, readings), jnp.nan, traffic.targets(readings, jnp))
        obs = observe(traffic.grid, readings, state.signals, jnp)
        return Step(state=state, obs=obs, psi=psi, terminated=jnp.array(False), truncated=state.time >= traffic.horizon)

    return LaneProblem(
        name=f"traffic-{rows}x{columns}",
        reset=reset,
        step=step,
        observation_space=gym.spaces.Box(space.low, space.high, dtype=np.float32),
        action_space=traffic.action_space,
        network=used,
        weights=traffic.weights,
        local=traffic.local,
        simulator=simulator,
    )
