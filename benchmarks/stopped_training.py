"""Interrupt `factorax train` some seconds after the prompt, and score the policies that it leaves.

    python -m benchmarks.stopped_training train OUT --seconds 15 -- traffic:3x3,slots=20 --preset traffic-gpu --seeds 5
    python -m benchmarks.stopped_training score OUT

The first command runs with an empty compilation cache unless `--cache` names a folder, and with ``--seconds first`` it
ends with the first update. A training that takes less than the seconds is not interrupted. The command writes the
checkpoint of each seed and ``stopped.json`` into OUT. The second scores these policies in SUMO on the same grid, most
probable actions, ten episodes each, perhaps on another machine.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

COMMAND = "import sys; from factorax.cli import main; sys.exit(main())"
"""The command `factorax`, where the library is not installed but on the path."""


def rows(runs: Path) -> list[dict[str, Any]]:
    """Return the last row of the metrics of each run that has one."""
    files = sorted(runs.glob("*/metrics.jsonl"))
    lines = [file.read_text(encoding="utf-8").splitlines() for file in files]
    return [json.loads(each[-1]) for each in lines if each and each[-1].endswith("}")]


def train(out: Path, seconds: float | None, options: list[str], cache: Path | None) -> dict[str, Any]:
    """Train until the first update, or for some seconds from the prompt; return what was seen from outside."""
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"FACTORAX_COMPILATION_CACHE": str(cache or Path(folder, "cache"))}
        command = [sys.executable, "-c", COMMAND, "train", *options]
        began, taken, first = time.perf_counter(), 0.0, None
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
        while process.poll() is None:
            taken = time.perf_counter() - began
            if first is None and rows(Path(folder, "runs")):
                first = taken
            if taken >= seconds if seconds is not None else first is not None:
                process.send_signal(signal.SIGINT)
                break
            time.sleep(0.02)
        process.wait()
        last = rows(Path(folder, "runs"))
        result = {
            "options": options,
            "flags": os.environ.get("XLA_FLAGS", ""),
            "first": first,
            "interrupted": taken,
            "ended": time.perf_counter() - began,
            "steps": [row["time/total_timesteps"] for row in last],
            "training_returns": [row.get("rollout/ep_rew_mean") for row in last],
        }
        checkpoints = sorted(Path(folder, "runs").glob("*/checkpoints/last.safetensors"))
        for file in checkpoints if seconds is not None else []:
            shutil.copy(file, out / f"{file.parent.parent.name}.safetensors")
    (out / "stopped.json").write_text(json.dumps(result) + "\n", encoding="utf-8")
    return result


def score(out: Path, episodes: int = 10) -> dict[str, float]:
    """Return the mean return of each policy in SUMO."""
    import factorax as fx
    from factorax.problems import find_problem

    options = json.loads((out / "stopped.json").read_text(encoding="utf-8"))["options"]
    grid = options[0].removeprefix("traffic:").partition(",")[0]
    scores, files = {}, sorted(out.glob("*.safetensors"))
    if not files:
        raise SystemExit(f"{out}: has no checkpoints; want a training of some --seconds, past its first update")
    for file in files:
        judge = fx.FactoredPPO.load(file).on(find_problem(f"sumo:{grid}"))
        scores[file.stem] = judge.evaluate(episodes)["return"]
        judge.close()
        print(f"{file.stem}: {scores[file.stem]:.1f}", flush=True)
    print(f"mean: {statistics.mean(scores.values()):.1f}")
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train")
    training.add_argument("out", type=Path)
    training.add_argument("--seconds", default="first")
    training.add_argument("--cache", type=Path)
    training.add_argument("options", nargs="+")
    commands.add_parser("score").add_argument("out", type=Path)
    given = parser.parse_args()
    if given.command == "train":
        seconds = None if given.seconds == "first" else float(given.seconds)
        print(json.dumps(train(given.out, seconds, given.options, given.cache)))
    else:
        score(given.out)


if __name__ == "__main__":
    main()
