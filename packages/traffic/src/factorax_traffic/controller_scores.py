"""Scores of the reference traffic-light controllers, for comparison with runs."""

import re

import jax
import numpy as np

from factorax.problems.families import parse_settings, parse_size

from . import LaneSimulator, Traffic
from .controllers import CONTROLLERS
from .episode import play, play_in_sumo
from .families import in_sumo


def is_grid(problem: str) -> bool:
    """Return whether a problem is a grid of traffic lights, rather than a network from files.

    >>> is_grid("traffic:3x3"), is_grid("sumo:2x6,norm=fixed"), is_grid("sumo:town.net.xml,town.rou.xml")
    (True, True, False)
    """
    return re.fullmatch(r"(traffic|sumo)(:(\d+x\d+)?(,.*)?)?", problem) is not None


def scored(controller: str, problem: str, *, episodes: int, seed: int) -> np.ndarray | None:
    """Return the global return of each episode under a controller, in the simulator of the problem; None for networks
    from files, which these controllers do not know."""
    if not is_grid(problem):
        return None
    sumo = problem.startswith("sumo")
    return controller_returns(controller, problem, episodes=episodes, seed=seed, sumo=sumo)


def controller_returns(
    name: str, problem: str = "traffic:3x3", *, episodes: int = 10, seed: int = 0, sumo: bool = False
) -> np.ndarray:
    """Return the global return of each episode under a controller, ``(episodes,)``.

    **Arguments**

    - `name`: one of `factorax_traffic.controllers.CONTROLLERS`, such as ``"gap-out"``.
    - `problem`: the name of a traffic problem, such as ``"traffic:2x6"``.
    - `sumo`: use SUMO instead of the lane simulator, with the seeds `seed`, `seed` + 1, …
    """
    if name not in CONTROLLERS:
        raise ValueError(f"controller: got {name!r}, want one of {', '.join(CONTROLLERS)}")
    text = in_sumo(problem).partition(":")[2]  # without options that only the lane simulator has
    size, *pairs = text.split(",")
    try:
        rows, columns = parse_size(size or "3x3", "traffic", text)
        traffic = Traffic(rows, columns, **parse_settings(pairs))
    except (ValueError, TypeError) as error:
        raise ValueError(f"problem: got {problem!r}, want a grid of lights, as in traffic:3x3 ({error})") from error
    controller = CONTROLLERS[name](traffic.grid)
    if not sumo:
        simulator = LaneSimulator(traffic)
        keys = jax.random.split(jax.random.key(seed), episodes)
        rewards = jax.jit(jax.vmap(lambda key: play(simulator, controller, key)[0].reward))(keys)
        return np.asarray(rewards, float).sum(axis=1)
    from .sumo import TrafficEnv

    env = TrafficEnv(traffic)
    try:
        return np.array([play_in_sumo(env, controller, seed + i).reward.sum() for i in range(episodes)])
    finally:
        env.close()
