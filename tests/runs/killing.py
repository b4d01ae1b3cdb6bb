"""``python killing.py FOLDER KILLS SEED``: train into FOLDER/whole; and into FOLDER/killed, ended by SIGKILL so many
times at random moments.

Every life begins as a fork of this process, which has loaded everything and computed nothing, and compiles from a
cache. A line for every death: how many steps the last whole checkpoint had then, and what lay about.
"""

import gc
import json
import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path

warnings.simplefilter("ignore")  # JAX has its doubts about forks in general

from factorax import problems, runs  # noqa: E402
from factorax.ppo import Config, checkpoints, model  # noqa: E402
from factorax.runs import training  # noqa: E402

LOADED = (model, runs.train, problems.find_problem("chain:3"))  # here, and not in every life
gc.freeze()  # so that no life searches it for garbage
gc.set_threshold(50_000, 20, 20)  # tracing allocates much and leaves few cycles

SMALL = {"n_envs": 4, "n_steps": 10, "batch_size": 20, "n_epochs": 2, "hidden": (8,), "normalize_obs": True}
CONFIG = Config(total_timesteps=6000, normalize_reward=True, **SMALL)


def life(out: Path) -> int:
    pid = os.fork()
    if pid == 0:
        training.SECONDS_BETWEEN_CHECKPOINTS = -1.0
        runs.train("chain:3", CONFIG, out, progress_bar=False)
        os._exit(0)
    return pid


def size(out: Path) -> int:
    path = out / "metrics.jsonl"
    return path.stat().st_size if path.exists() else 0


def whole(folder: Path) -> list[int]:
    """Steps of the checkpoints that can be read, under the names that count."""
    found = []
    for name in ("last", "previous"):
        path = folder / f"{name}.safetensors"
        if path.exists():
            found.append(checkpoints.about(path)["timesteps"])
    return found


def main(folder: Path, kills: int, seed: int) -> None:
    rng, out = random.Random(seed), folder / "killed"
    finish(folder / "whole")
    for _ in range(kills):
        before, pid = size(out), life(out)
        while size(out) <= before and os.waitpid(pid, os.WNOHANG) == (0, 0):  # until it learns
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.1))
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):  # it was done
            pass
        names = sorted(p.name for p in (out / "checkpoints").iterdir())
        print(json.dumps({"whole": whole(out / "checkpoints"), "half": sum(name[0] == "." for name in names)}))
    finish(out)


def finish(out: Path) -> None:
    _, status = os.waitpid(life(out), 0)
    if status:
        sys.exit(f"{out}: {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
