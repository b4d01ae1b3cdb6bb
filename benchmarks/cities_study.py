"""Tune and train on the networks of RESCO with many processes; needs libsumo and the networks of sumo-rl.

    python benchmarks/cities_study.py tune --workers 14 --minutes 8 --out study
    python benchmarks/cities_study.py final --workers 14 --minutes 9 --out study
    python benchmarks/cities_study.py controllers --workers 14 --out study

Each training is a process with its own folder. The results of all trainings are in OUT/results-ROUND.json, which is
updated whenever one ends and every half minute. `tune`, `tune2`, `tune4` and `tune5` try the configurations in
`CONFIGURATIONS`, `CONFIGURATIONS_2` and so on in short trainings. `final` trains five seeds on each network with the
configuration in `FINAL`. With --limit N, only the first N jobs are run. A training that was stopped continues when the
same command is run again.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

EPISODES = {"cologne1": 300, "cologne3": 240, "cologne8": 240, "grid4x4": 190}
"""Number of episodes of a training of `tune` in each city."""
BASE: dict[str, Any] = {"learning_rate": 5e-3}
WIDE = {"reach": 400.0, "zones": 5}
CONFIGURATIONS: list[dict[str, Any]] = [
    {"city": "grid4x4", "name": "base"},
    {"city": "grid4x4", "name": "complete", "network": "complete"},
    {"city": "grid4x4", "name": "gamma 0.98", "gamma": 0.98},
    {"city": "cologne8", "name": "base"},
    {"city": "cologne8", "name": "complete", "network": "complete"},
    {"city": "cologne8", "name": "incident gamma 0.98", "network": "incident", "gamma": 0.98},
    {"city": "cologne8", "name": "reach 400, zones 5, gamma 0.98", "gamma": 0.98, "environment": WIDE},
    {"city": "cologne3", "name": "base"},
    {"city": "cologne3", "name": "identity 0", "policy": "shared,identity=0", "transfer": ["cologne8", "cologne1"]},
    {"city": "cologne3", "name": "complete", "network": "complete"},
    {"city": "cologne3", "name": "lr 2e-3 gamma 0.98", "learning_rate": 2e-3, "gamma": 0.98},
    {"city": "cologne1", "name": "base"},
]
"""Configurations of the first round, `tune`: 4 passes over each episode, without the reading of cars inside the
junction."""
AGAIN: dict[str, Any] = {"learning_rate": 3e-3, "n_epochs": 10, "reward_scale": 0.1, "policy": "shared,identity=0"}
MANY = {"n_epochs": 20, "batch_size": 180, "ent_coef": 0.005}
CONFIGURATIONS_2: list[dict[str, Any]] = [
    {"city": "cologne3", "name": "again"},
    {"city": "cologne3", "name": "20 epochs", **MANY},
    {"city": "cologne3", "name": "identity 4", "policy": "shared,identity=4"},
    {"city": "cologne3", "name": "gamma 0.98 lambda 0.95", "gamma": 0.98, "gae_lambda": 0.95},
    {"city": "cologne8", "name": "again"},
    {"city": "cologne8", "name": "20 epochs", **MANY},
    {"city": "cologne8", "name": "identity 4", "policy": "shared,identity=4"},
    {"city": "cologne8", "name": "hidden 64 64 lr 2e-3", "hidden": [64, 64], "learning_rate": 2e-3},
]
"""Configurations of the second round, `tune2`: with that reading, more passes, and a tenth of the reward scale."""
EPISODES_2 = {"cologne3": 180, "cologne8": 200}
TURNS: dict[str, Any] = {"turns": True, "all_red": 20}
LANES: dict[str, Any] = {"turns": False, "all_red": 20}
CONFIGURATIONS_4: list[dict[str, Any]] = [
    {"city": "cologne8", "name": "turns", "environment": TURNS},
    {"city": "cologne8", "name": "turns gamma 0.9", "environment": TURNS, "gamma": 0.9},
    {"city": "cologne8", "name": "turns gamma 0.93", "environment": TURNS, "gamma": 0.93},
    {"city": "cologne8", "name": "turns identity 4", "environment": TURNS, "policy": "shared,identity=4"},
    {"city": "cologne8", "name": "turns zones 12", "environment": TURNS | {"zones": 12}},
    {"city": "cologne8", "name": "lanes", "environment": LANES},
    {"city": "cologne3", "name": "turns", "environment": TURNS},
    {"city": "cologne3", "name": "turns gamma 0.9", "environment": TURNS, "gamma": 0.9},
    {"city": "cologne3", "name": "turns clearing 0", "environment": TURNS | {"clearing": 0}},
    {"city": "cologne3", "name": "turns reach 200", "environment": TURNS | {"reach": 200.0, "zones": 4}},
    {"city": "cologne3", "name": "lanes gamma 0.9", "environment": LANES, "gamma": 0.9},
    {"city": "cologne3", "name": "turns complete", "environment": TURNS, "network": "complete"},
    {"city": "cologne1", "name": "turns", "environment": TURNS},
    {"city": "cologne1", "name": "turns gamma 0.92", "environment": TURNS, "gamma": 0.92},
    {"city": "cologne1", "name": "lanes", "environment": LANES},
    {"city": "cologne1", "name": "turns ent 0.003", "environment": TURNS, "ent_coef": 0.003},
]
"""Configurations of the fourth round, `tune4`: cars by turns or by lanes, and lights that wait for a clear junction."""
NINE: dict[str, Any] = {"gamma": 0.9, "environment": TURNS}
CONFIGURATIONS_5: list[dict[str, Any]] = [
    {"city": "cologne8", "name": "base"},
    {"city": "cologne8", "name": "base", "seed": 1},
    {"city": "cologne8", "name": "ent 0.003", "ent_coef": 0.003},
    {"city": "cologne8", "name": "ent 0.003 gamma 0.93", "ent_coef": 0.003, "gamma": 0.93},
    {"city": "cologne8", "name": "lr 2e-3", "learning_rate": 2e-3},
    {"city": "cologne8", "name": "lambda 0.95", "gae_lambda": 0.95},
    {"city": "cologne8", "name": "hidden 128 128 lr 2e-3", "hidden": [128, 128], "learning_rate": 2e-3},
    {"city": "cologne8", "name": "identity 4", "policy": "shared,identity=4"},
    {"city": "cologne8", "name": "8 epochs", "n_epochs": 8},
    {"city": "cologne3", "name": "base", "seed": 1},
    {"city": "cologne3", "name": "base", "seed": 2},
    {"city": "cologne3", "name": "ent 0.003", "ent_coef": 0.003},
    {"city": "cologne3", "name": "hidden 128 128 lr 2e-3", "hidden": [128, 128], "learning_rate": 2e-3},
    {"city": "cologne1", "name": "base"},
    {"city": "cologne1", "name": "ent 0.003", "ent_coef": 0.003},
    {"city": "grid4x4", "name": "base"},
]
"""Configurations of the fifth round, `tune5`: `gamma=0.9`, and green waits for slow cars too, not only for standing
ones."""
EPISODES_4 = {"cologne1": 200, "cologne3": 110, "cologne8": 130}
EPISODES_5 = {"cologne1": 120, "cologne3": 90, "cologne8": 90, "grid4x4": 35}
CONTROLLERS = "max-pressure", "greedy", "fixed", "actuated", "delay-based"
FINAL: dict[str, dict[str, Any]] = {name: {"episodes": 200} for name in EPISODES}
_OTHERS = ("city", "name", "network", "environment", "transfer", "episodes")


@dataclass(frozen=True)
class Options:
    """Command-line options."""

    round: tyro.conf.Positional[Literal["tune", "tune2", "tune4", "tune5", "final", "controllers"]]
    out: Path = Path("study")
    """Folder for results."""
    workers: int = 2
    """Number of trainings at the same time."""
    minutes: float = 8.0
    """Time limit of the command in minutes; trainings that could not finish in time are not started."""
    limit: int = 0
    """Run only this many jobs; 0 for all."""
    only: str = ""
    """Run only jobs with this text in their names."""
    seconds: float = 0.0
    """Time limit of one training; 0 for a limit with which all jobs finish in time."""


def jobs(options: Options) -> list[tuple[str, list[str]]]:
    """Return names and commands of all jobs."""
    if options.round == "controllers":
        module = "factorax_paper.harness.city_controllers"
        return [
            (f"{city}-{name}", [module, "--city", city, "--names", name])
            for name in CONTROLLERS
            for city in reversed(EPISODES)
            if options.only in f"{city}-{name}"
        ]
    if options.round == "tune":
        rows = [BASE | row for row in CONFIGURATIONS]
        rows = [row | {"episodes": row.get("episodes", EPISODES[row["city"]]), "seed": 0} for row in rows]
        evaluation = ["--evaluations", "4", "--every", "4", "--seeds", "5", "--early", "10"]
    elif options.round == "tune2":
        rows = [AGAIN | row | {"episodes": EPISODES_2[row["city"]], "seed": 0} for row in CONFIGURATIONS_2]
        evaluation = ["--evaluations", "2", "--every", "5", "--seeds", "10", "--early", "15"]
    elif options.round in ("tune4", "tune5"):
        fourth = options.round == "tune4"
        episodes, tried = (EPISODES_4, CONFIGURATIONS_4) if fourth else (EPISODES_5, CONFIGURATIONS_5)
        rows = [{"seed": 0} | ({} if fourth else NINE) | row | {"episodes": episodes[row["city"]]} for row in tried]
        evaluation = ["--evaluations", "1", "--seeds", "10"]
    else:
        rows = [
            BASE | row | {"city": city, "name": "final", "seed": s} for s in range(5) for city, row in FINAL.items()
        ]
        evaluation = ["--evaluations", "10", "--every", "1", "--seeds", "10", "--early", "10"]
    rows = [row for row in rows if options.only in _name(row)][: options.limit or None]
    waves = -(-len(rows) // options.workers)
    seconds = options.seconds or (options.minutes * 60 - 40) / waves - 20
    return [_command(row, [*evaluation, "--seconds", f"{seconds:.0f}"]) for row in rows]


def _command(row: dict[str, Any], arguments: list[str]) -> tuple[str, list[str]]:
    settings = {name: value for name, value in row.items() if name not in (*_OTHERS, "seed")}
    command = ["factorax_paper.harness.city_training", "--city", row["city"], "--seed", str(row["seed"])]
    command += ["--episodes", str(row["episodes"]), "--network", row.get("network", "section"), *arguments]
    command += ["--settings", json.dumps(settings), "--environment", json.dumps(row.get("environment", {}))]
    return _name(row), command + (["--transfer", *row["transfer"]] if "transfer" in row else [])


def _name(row: dict[str, Any]) -> str:
    return f"{row['city']}-{row['name']}-{row['seed']}".replace(" ", "-").replace(",", "")


def collect(options: Options, names: list[str], began: float) -> None:
    """Write all results so far into one file."""
    results = {}
    for name in names:
        path = options.out / options.round / name / "result.json"
        if path.exists():
            results[name] = json.loads(path.read_text())
    path = options.out / f"results-{options.round}.json"
    path.write_text(json.dumps({"seconds": round(time.monotonic() - began, 1), "results": results}))


def main(options: Options) -> None:
    """Run all jobs, `workers` at a time, until the time limit."""
    began = time.monotonic()
    until = began + 60 * options.minutes
    folder = options.out / options.round
    folder.mkdir(parents=True, exist_ok=True)
    waiting = jobs(options)
    names = [name for name, _ in waiting]
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    environment = os.environ | one | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    running: dict[str, subprocess.Popen] = {}
    collected = began
    while waiting or running:
        while waiting and len(running) < options.workers and time.monotonic() < until - 40:
            name, command = waiting.pop(0)
            with (folder / f"{name}.log").open("w") as log:
                command = [sys.executable, "-m", *command, "--out", str(folder / name)]
                running[name] = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        time.sleep(0.5)
        ended = [name for name, process in running.items() if process.poll() is not None]
        for name in ended:
            code = running.pop(name).returncode
            print(
                f"{time.monotonic() - began:6.0f} s  {name}: {'done' if code == 0 else f'failed with {code}'}",
                flush=True,
            )
            collect(options, names, began)
        if time.monotonic() > collected + 30:
            collect(options, names, began)
            collected = time.monotonic()
        if time.monotonic() > until:
            for process in running.values():
                process.terminate()
            break
    for process in running.values():
        process.wait()
    collect(options, names, began)


if __name__ == "__main__":
    main(tyro.cli(Options))
