"""Simulated seconds of sumo-rl for a second of processor time, as one line of JSON.

A program of its own, in an environment of its own (`make .venv-sumo-rl/installed`), for sumo-rl 1.4.5 does not work
with the PettingZoo of today. Arguments: the network, the routes, the seconds of an episode, and the seconds between two
decisions. Observations, rewards and infos are sumo-rl's own. Resets count.
"""

import json
import os
import sys
import time

import sumo  # pyright: ignore[reportMissingImports]

os.environ["SUMO_HOME"], os.environ["LIBSUMO_AS_TRACI"] = sumo.SUMO_HOME, "1"
QUIET = "--no-step-log --duration-log.disable --xml-validation never --collision.check-junctions true"


def main(net: str, routes: str, seconds: int, every: int, repeats: int = 6) -> None:
    import numpy as np
    from sumo_rl import SumoEnvironment  # pyright: ignore[reportMissingImports]

    env = SumoEnvironment(
        net,
        routes,
        num_seconds=seconds,
        delta_time=every,
        yellow_time=min(2, every - 1),  # it must be shorter than what is between decisions
        sumo_warnings=False,
        additional_sumo_cmd=QUIET,
    )
    rng, taken = np.random.default_rng(0), []
    for _ in range(repeats):
        start, done = time.process_time(), False
        env.reset(seed=0)
        while not done:
            _, _, dones, _ = env.step(dict(zip(env.ts_ids, rng.integers(0, 2, len(env.ts_ids)).tolist(), strict=True)))
            done = dones["__all__"]
        taken.append(time.process_time() - start)
    env.close()
    print(json.dumps(seconds / min(taken[1:])))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
