"""Reference controllers: functions from a joint observation and the time to switch requests, in either simulator."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .grid import SPEED_LIMIT, Grid
from .observations import MAX_DISTANCE


class Controller(NamedTuple):
    """A controller of the lights, for NumPy or JAX arrays.

    >>> act, memory = every(Grid(1, 2), 2)
    >>> for t in range(3):
    ...     request, memory = act(None, t, memory)
    ...     print(request)
    [False False]
    [ True  True]
    [False False]
    """

    act: Callable[[Any, Any, Any], tuple[Any, Any]]
    """Maps an observation ``(d,)``, the step (from 0) and the controller's memory to booleans ``(n,)`` and the new
    memory."""
    memory: Any = ()
    """The memory at the start of an episode."""


def _forgetful(act: Callable[[Any, Any], Any]) -> Controller:
    return Controller(lambda obs, t, memory: (act(obs, t), memory))


def every(grid: Grid, seconds: int) -> Controller:
    """Return a controller that requests a switch of all lights in steps k, 2k, 3k, …, counted from 1.

    With 1, lights switch as often as they can. The cycle is fixed: ``every(grid, 31)`` has 28 s of green and 3 s of
    yellow.
    """
    if seconds < 1:
        raise ValueError(f"seconds: got {seconds}, want at least 1")

    return _forgetful(lambda obs, t: np.ones(grid.n_lights, bool) & ((t + 1) % seconds == 0))


def always(grid: Grid) -> Controller:
    """Return a controller that switches as often as possible: one second of green, three of yellow."""
    return every(grid, 1)


def never(grid: Grid) -> Controller:
    """Return a controller that never switches: north–south stays green, or SUMO's own programme runs."""
    return _forgetful(lambda obs, t: np.zeros(grid.n_lights, bool))


def replay(requests: Any) -> Controller:
    """Return a controller that replays recorded requests, booleans ``(T, n)``."""
    return _forgetful(lambda obs, t: requests[t])


def gap_out(grid: Grid, *, wait: float = 135.0, clear: float = 90.0) -> Controller:
    """Return a controller that switches if a car is within `wait` metres of the red and none within `clear` of the
    green.

    >>> from factorax_traffic import Traffic
    >>> gap_out(Grid(3, 3)).act(np.zeros(Traffic(3, 3).observation_space.shape), 0, ())[0].any()
    np.False_
    """

    def act(obs: Any, t: Any) -> Any:
        view = _LightView.of(grid, obs)
        waits, passes = view.present & (view.distance < wait), view.present & (view.distance < clear)
        return view.facing(waits, green=False) & ~view.facing(passes, green=True)

    return _forgetful(act)


def actuated(grid: Grid, *, shortest: int = 8, longest: int = 45, gap: int = 3, detector: float = 21.0) -> Controller:
    """Return SUMO's actuated control: green ends once no car has passed a loop detector for `gap` seconds.

    The loop is `detector` metres before the light; green lasts between `shortest` and `longest` seconds. SUMO's own
    lights are `TrafficEnv(program="actuated")`, with loops in the street. This controller uses the observation: a car
    counts as passing in the second in which it would pass at its current speed.
    """

    def act(obs: Any, t: Any, memory: Any) -> tuple[Any, Any]:
        green, idle = memory
        view = _LightView.of(grid, obs)
        passes = view.present & (view.distance >= detector) & (view.distance - view.speed < detector)
        green = (green + 1) * (1 - view.yellow)
        idle = (idle + 1) * (1 - view.yellow) * ~view.facing(passes, green=True)
        return (green >= longest) | ((green >= shortest) & (idle > gap)), (green, idle)

    return Controller(act, (np.zeros(grid.n_lights, np.int32), np.zeros(grid.n_lights, np.int32)))


def trained(model: Any, *, sampled: bool = False, seed: int = 0) -> Controller:
    """Return the policy of a `FactoredPPO` model trained on a grid of this size as a controller.

    Actions are the most probable ones or, if `sampled`, drawn from the policy.
    """
    learner, state = model.learner, model.state
    size = state.agent.policy.memory

    def act(obs: Any, t: Any, remembered: Any) -> tuple[Any, Any]:
        key, *memory = remembered
        key, sample_key = jax.random.split(key)
        row = jnp.asarray(obs, jnp.float32)
        chosen = learner.behaviour(state).act(sample_key, row, *memory, deterministic=not sampled)
        action, *memory = chosen if memory else (chosen,)
        return learner.spec.components.to_environment(action, jnp) > 0, (key, *memory)

    return Controller(jax.jit(act), (jax.random.key(seed), *([jnp.zeros(size)] if size else [])))


class _LightView(NamedTuple):
    """The lights ``(n,)`` in a joint observation, and the nearest car on each approach from the west, south, east and
    north, ``(n, 4)``."""

    speed: Any
    distance: Any
    present: Any
    east_west: Any
    """Whether this direction is green, or will be after the yellow."""
    yellow: Any
    """0 or 1."""

    @classmethod
    def of(cls, grid: Grid, obs: Any) -> "_LightView":
        n, m = grid.n_lights, grid.n_edges
        cars = obs[: 24 * n].reshape(3, n, 4, 2)[..., 0]
        lights = obs[24 * n + 2 * m :].reshape(3, n)
        yellow = (lights[2] > 0.5).astype(np.int32)
        return cls(
            speed=cars[0] * SPEED_LIMIT,
            distance=cars[1] * MAX_DISTANCE,
            present=cars[2] > 0,
            east_west=lights[1] > 0.5,
            yellow=yellow,
        )

    def facing(self, cars: Any, *, green: bool) -> Any:
        """Return whether one of these cars ``(n, 4)`` approaches the green, or the red, side of its light."""
        along, across = cars[:, (0, 2)].any(axis=-1), cars[:, (1, 3)].any(axis=-1)
        east_west = self.east_west == green
        return (along & east_west) | (across & ~east_west)


CONTROLLERS: dict[str, Callable[[Grid], Controller]] = {
    "always": always,
    "never": never,
    "every-10": lambda grid: every(grid, 10),
    "every-20": lambda grid: every(grid, 20),
    "fixed-time": lambda grid: every(grid, 31),
    "actuated": actuated,
    "gap-out": gap_out,
}
