"""Print the simulated seconds of sumo-rl per second of processor time, as one line of JSON.

This is a separate program with its own virtual environment (`make .venv-sumo-rl/installed`), because sumo-rl 1.4.5 does
not work with current versions of PettingZoo. Arguments: the network, the routes, the seconds per episode, and the
seconds between two decisions. It uses sumo-rl's PettingZoo environment, which is the one for several lights, with its
own observations, rewards and infos. Resets are included.
"""

import json
import os
import sys
import time
from typing import Any

import sumo  # pyright: ignore[reportMissingImports]

os.environ["SUMO_HOME"], os.environ["LIBSUMO_AS_TRACI"] = sumo.SUMO_HOME, "1"
QUIET = "--no-step-log --duration-log.disable --xml-validation never --collision.check-junctions true"


def made(net: str, routes: str, seconds: int, every: int) -> Any:
    """Return the environment of several lights, with this many seconds between decisions."""
    from sumo_rl import parallel_env  # pyright: ignore[reportMissingImports]

    return parallel_env(
        net_file=net,
        route_file=routes,
        num_seconds=seconds,
        delta_time=every,
        yellow_time=min(2, every - 1),  # must be shorter than the time between decisions
        sumo_warnings=False,
        additional_sumo_cmd=QUIET,
    )


def main(net: str, routes: str, seconds: int, every: int, repeats: int = 6) -> None:
    import numpy as np

    env = made(net, routes, seconds, every)
    rng, taken = np.random.default_rng(0), []
    for _ in range(repeats):
        start = time.process_time()
        env.reset(seed=0)
        while env.agents:
            env.step(dict(zip(env.agents, rng.integers(0, 2, len(env.agents)).tolist(), strict=True)))
        taken.append(time.process_time() - start)
    env.close()
    print(json.dumps(seconds / min(taken[1:])))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
