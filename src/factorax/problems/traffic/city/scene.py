"""What there is to see of an episode in a city, second by second."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .controllers import Controller, play_in
from .env import CityEnv, Score
from .roads import Roads

MARGIN = 60.0
"""Metres around the lights that are shown."""
FASTEST = 15.0
"""Metres a second at the end of the colours of cars."""


class CityScene(NamedTuple):
    """An episode for a film; a row or an entry for every second."""

    roads: Roads
    cars: list[np.ndarray]
    """Places of the cars, metres ``(cars, 2)``."""
    speeds: list[np.ndarray]
    directions: list[np.ndarray]
    """Where they go, degrees clockwise from the north."""
    signals: list[tuple[str, ...]]
    """What every light shows, one letter per link."""
    score: Score


def record(env: CityEnv, controller: str | Callable[[CityEnv], Controller], seed: int, seconds: int) -> CityScene:
    """Play the first seconds of an episode and return what there is to see of them."""
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
    """Return the colour that a light shows a lane: green if any of its links has green, else yellow if any has it."""
    state = scene.signals[second][light]
    letters = {state[link.index].lower() for link in scene.roads.lights[light].links if link.origin == lane}
    return "green" if "g" in letters else "yellow" if "y" in letters else "red"


def extent(roads: Roads) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of what is shown: the lanes that lead to lights, up to 200 m before them, and a margin."""
    ends = np.array([roads.shapes[lane][-1] for light in roads.lights for lane in light.lanes])
    return ends.min(axis=0) - 200 - MARGIN, ends.max(axis=0) + 200 + MARGIN
