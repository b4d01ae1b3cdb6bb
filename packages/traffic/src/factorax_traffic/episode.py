"""Complete episodes under a controller, in the lane simulator and in SUMO."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .controllers import Controller
from .lane_simulator import LaneSimulator
from .lane_state import Lanes
from .observations import observe
from .targets import global_reward


class TrafficEpisode(NamedTuple):
    """The targets, rewards and numbers of cars of an episode of T steps."""

    psi: Any
    """Targets, ``(T, m)``."""
    reward: Any
    """The global reward, independent of the kind of targets, ``(T,)``."""
    cars: Any
    """Number of cars on each street, ``(T, m)``."""


def play(
    simulator: LaneSimulator, controller: Controller, key: jax.Array, *, steps: int | None = None
) -> tuple[TrafficEpisode, Lanes]:
    """Play an episode in the lane simulator; return it and the state after each step.

    A pure function, which can be compiled and vectorised over keys.

    >>> from factorax_traffic import LaneSimulator, Traffic
    >>> from factorax_traffic.controllers import always
    >>> simulator = LaneSimulator(Traffic(1, 1, horizon=20))
    >>> episode, states = jax.jit(lambda key: play(simulator, always(simulator.grid), key))(jax.random.key(0))
    >>> episode.psi.shape, states.place.shape[0]
    ((20, 8), 20)
    """
    traffic = simulator.traffic

    def step(carry: Any, t: jax.Array) -> tuple[Any, Any]:
        state, obs, memory = carry
        request, memory = controller.act(obs, t, memory)
        state = simulator.step(state, request)
        readings = simulator.read(state)
        invalid = simulator.invalid(state, readings)
        psi, reward = (
            jnp.where(invalid, jnp.nan, x) for x in (traffic.targets(readings, jnp), global_reward(readings, jnp))
        )
        obs = observe(traffic.grid, readings, state.signals, jnp)
        return (state, obs, memory), (TrafficEpisode(psi, reward, readings.cars), state)

    state = simulator.reset(key)
    obs = observe(traffic.grid, simulator.read(state), state.signals, jnp)
    memory = jax.tree.map(jnp.asarray, controller.memory)
    return jax.lax.scan(step, (state, obs, memory), jnp.arange(steps or traffic.horizon))[1]


def play_in_sumo(env: Any, controller: Controller, seed: int, *, steps: int | None = None) -> TrafficEpisode:
    """Play an episode in SUMO, in the `TrafficEnv` `env`."""
    obs, _ = env.reset(seed=seed)
    memory, steps_taken = controller.memory, []
    for t in range(steps or env.traffic.horizon):
        request, memory = controller.act(obs, t, memory)
        obs, _, terminated, _, info = env.step(np.asarray(request))
        if terminated:
            raise RuntimeError(f"SUMO, seed {seed}, second {t + 1}: cars collided")
        readings = env.read()
        steps_taken.append(TrafficEpisode(env.traffic.targets(readings), info["global_reward"], readings.cars))
    return TrafficEpisode(*map(np.array, zip(*steps_taken, strict=True)))
