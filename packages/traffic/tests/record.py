"""Record what SUMO does, for the tests that run without it.

``python tests/problems/traffic/record.py`` writes recorded.npz.

For every controller and grid: rewards of every step, cars in the grid at every step, targets summed over the episode.
"""

from pathlib import Path

import numpy as np
from factorax_traffic import Traffic
from factorax_traffic.controllers import CONTROLLERS, replay
from factorax_traffic.episode import play_in_sumo

PATH = Path(__file__).parent / "recorded.npz"
SIZES = ((3, 3), (2, 6))
RANDOM = (0.02, 0.1, 0.5)
"""Probabilities of a request in a second, of random commands."""


def commands(probability, n):
    return np.random.default_rng(int(1000 * probability)).random((400, n)) < probability


def controllers(grid):
    """By name; the random ones repeat recorded commands."""
    by_name = {name: make(grid) for name, make in CONTROLLERS.items()}
    for p in RANDOM:
        requests = commands(p, grid.n_lights)
        by_name[f"random-{p}"] = replay(requests)
    return by_name


if __name__ == "__main__":
    from factorax_traffic.sumo import TrafficEnv

    recorded = {}
    for size in SIZES:
        env = TrafficEnv(Traffic(*size, speed_deviation=0.0))
        for name, controller in controllers(env.grid).items():
            psi, _, cars = play_in_sumo(env, controller, 0)
            key = f"{size[0]}x{size[1]}/{name}"
            recorded |= {f"{key}/reward": np.sum(psi, axis=1), f"{key}/cars": cars.sum(axis=1).astype(np.int16)}
            recorded |= {f"{key}/targets": np.sum(psi, axis=0)}
        env.close()
    np.savez_compressed(PATH, **recorded)
