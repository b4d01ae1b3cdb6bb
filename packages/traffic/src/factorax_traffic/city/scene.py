"""Recordings of episodes in a city, second by second, for films."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .controllers import Controller, play_in
from .env import CityEnv, Score
from .roads import Roads

MARGIN = 60.0
"""Metres shown around the lights."""
FASTEST = 15.0
"""Speed in m/s at the upper end of the colour scale of cars."""


class CityScene(NamedTuple):
    """A recorded episode, with one row or entry per second."""

    roads: Roads
    cars: list[np.ndarray]
    """Positions of the cars in metres, ``(cars, 2)``."""
    speeds: list[np.ndarray]
    directions: list[np.ndarray]
    """Directions of the cars, in degrees clockwise from north."""
    signals: list[tuple[str, ...]]
    """State of each light, one letter per link."""
    score: Score


def record(env: CityEnv, controller: str | Callable[[CityEnv], Controller], seed: int, seconds: int) -> CityScene:
    """Play the first seconds of an episode and record them."""
    if isinstance(seconds, bool) or not isinstance(seconds, int) or seconds < env.interval:
        raise ValueError(f"seconds: got {seconds!r}, want at least {env.interval}, the seconds between decisions")
    scene = CityScene(env.roads, [], [], [], [], Score(0.0, 0, 0, 0, 0, 0))
    env.horizon = seconds

    def look() -> None:
        api = env.simulation.api
        names = api.vehicle.getIDList()
        scene.cars.append(np.array([api.vehicle.getPosition(name) for name in names], float).reshape(-1, 2))
        scene.speeds.append(np.array([api.vehicle.getSpeed(name) for name in names], float))
        scene.directions.append(np.array([api.vehicle.getAngle(name) for name in names], float))
        states = (api.trafficlight.getRedYellowGreenState(light.name) for light in env.roads.lights)
        scene.signals.append(tuple(states))

    env.every_second = look
    try:
        return scene._replace(score=play_in(env, controller, seed))
    finally:
        env.every_second = None


def shown(scene: CityScene, second: int, light: int, lane: int) -> str:
    """Return the colour that a light shows to a lane: green if any of its links has green, otherwise yellow if any has
    yellow."""
    state = scene.signals[second][light]
    letters = {state[link.index].lower() for link in scene.roads.lights[light].links if link.origin == lane}
    return "green" if "g" in letters else "yellow" if "y" in letters else "red"


def extent(roads: Roads) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of the visible area: the lanes that lead to lights, up to 200 m before them, with a margin."""
    ends = np.array([roads.shapes[lane][-1] for light in roads.lights for lane in light.lanes])
    return ends.min(axis=0) - 200 - MARGIN, ends.max(axis=0) + 200 + MARGIN
