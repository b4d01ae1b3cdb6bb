"""Reference controllers for cities: the next phase of a light, from readings of its lanes."""

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np

from .env import CityEnv, Score

Controller = Callable[[np.ndarray], np.ndarray]
"""Maps an observation ``(d,)`` to a phase for each light, ``(n,)``."""
Named = Literal["fixed", "greedy", "max-pressure", "actuated", "delay-based"]


def greedy(env: CityEnv) -> Controller:
    """Return a controller that gives green to the phase with the most cars, queued and approaching within reach.

    RESCO calls it MaxWave.
    """
    view = env.view
    n, _, lanes = view.shape
    return lambda obs: _largest(env, view.served @ _cars(env, obs).reshape(n, lanes, 1))


def max_pressure(env: CityEnv) -> Controller:
    """Return a controller that gives green to the phase with the highest pressure (Varaiya, 2013).

    The pressure is, summed over green links, the number of cars on the lane before the light minus those on the lane
    after.
    """
    roads = env.roads
    signs = np.zeros((*env.view.shape[:2], len(roads.lanes)))
    for i, light in enumerate(roads.lights):
        for p, state in enumerate(light.greens):
            for link in light.links:
                if state[link.index] in "Gg":
                    signs[i, p, link.origin] += 1
                    signs[i, p, link.destination] -= 1
    return lambda obs: _largest(env, signs @ np.bincount(env.cars.lane, minlength=len(roads.lanes))[:, None])


def _readings(env: CityEnv, obs: np.ndarray) -> np.ndarray:
    n, _, lanes = env.view.shape
    rows = obs.reshape(n, env.view.width)[:, : lanes * env.view.n_features]
    return rows.reshape(n, lanes, env.view.n_features).astype(np.float64)


def _cars(env: CityEnv, obs: np.ndarray) -> np.ndarray:
    return _readings(env, obs)[..., : 1 + env.detectors.zones].sum(axis=-1)


def _largest(env: CityEnv, scores: np.ndarray) -> np.ndarray:
    """Return the phase with the largest score, the first of equal ones, for scores ``(n, phases, 1)``."""
    missing = np.arange(scores.shape[1]) >= np.array(env.roads.n_phases)[:, None]
    return np.where(missing, -np.inf, scores[..., 0]).argmax(axis=1)


CHOOSING: dict[str, Callable[[CityEnv], Controller]] = {"greedy": greedy, "max-pressure": max_pressure}
DETECTORS = {"reach": 200.0, "zones": 3, "extended": False, "turns": False, "clearing": 0, "all_red": 0}
"""Settings of the named controllers, as in RESCO: 200 m back, and no further than the lane that leads to the light; no
request is replaced or delayed."""
PROGRAMMES: dict[str, Any] = {"fixed": "fixed", "actuated": "actuated", "delay-based": "delay_based"}


def play(make: Callable[..., CityEnv], controller: str | Callable[[CityEnv], Controller], seed: int = 0) -> Score:
    """Play an episode and return its score.

    - `make`: a factory of the environment that accepts the setting `programme`.
    - `controller`: the name of a controller, or a function from the environment to one.
    """
    if isinstance(controller, str) and controller not in get_args(Named):
        raise ValueError(f"controller: got {controller!r}, want one of {', '.join(get_args(Named))}")
    programme = PROGRAMMES.get(controller, "chosen") if isinstance(controller, str) else "chosen"
    env = make(programme=programme, **DETECTORS if isinstance(controller, str) else {})
    try:
        return play_in(env, controller, seed)
    finally:
        env.close()


def play_in(env: CityEnv, controller: str | Callable[[CityEnv], Controller], seed: int) -> Score:
    """Play an episode in an environment and return its score."""
    still = np.zeros(len(env.roads.lights), int)
    chosen = CHOOSING.get(controller) if isinstance(controller, str) else controller
    act: Controller = (lambda obs: still) if chosen is None else chosen(env)
    obs, _ = env.reset(seed=seed)
    while True:
        obs, _, _, truncated, info = env.step(act(obs))
        if truncated:
            return info["score"]
