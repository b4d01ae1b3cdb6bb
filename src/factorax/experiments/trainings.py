"""Experiments that train: every run a process of its own in a run folder, so that all cores work and all continue."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..learning import runs
from ..learning.comparing import Group, iqm, probability_of_improvement
from .parts import Arrays, Part
from .statistics import Interval
from .sweep import Stopped
from .table import Table, where

_SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(frozen=True)
class Training:
    """One method, with one seed or with several side by side in one process."""

    method: str
    seed: int
    steps: int
    module: str
    """What is run, as in ``python -m``; it writes ``metrics.jsonl`` and ``evaluation.json`` into its ``--out``."""
    arguments: tuple[str, ...]
    seeds: int = 1
    """How many, from `seed` on."""
    in_sumo: int = 0
    """Over how many episodes the final policies are also scored in SUMO, where it is installed."""

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.method}-{self.seed}".replace(" ", "-").replace(",", "")

    def folders(self, out: Path) -> list[Path]:
        """Of the runs, one for each seed."""
        return [out] if self.seeds == 1 else [out / f"seed-{self.seed + i}" for i in range(self.seeds)]


def train(
    method: str, problem: str, seed: int, steps: int, *options: Any, seeds: int = 1, in_sumo: int = 0
) -> Training:
    """Runs of ``factorax train``."""
    given = [problem, "--seed", seed, "--total-timesteps", steps, "--seeds", seeds, *options]
    return Training(method, seed, steps, "factorax.cli", ("train", *map(str, given)), seeds, in_sumo)


def trainings(
    plan: Callable[[Any, int], Sequence[Training]], measured: Callable[[Path], Arrays] = lambda out: {}
) -> Callable[[Any, int], list[Part]]:
    """From the runs of some settings to the parts of an experiment with a seed, with what is measured of their folders
    besides."""

    def part(training: Training) -> Part:
        def compute(checkpoint: Path, tick: Callable[[float], Any], stop: threading.Event) -> Arrays:
            out = checkpoint.parent.parent / "runs" / training.name
            return run(training, out, tick, stop) | measured(out)

        return Part(training.name, training.steps * training.seeds, compute)

    return lambda settings, seed: [part(training) for training in plan(settings, seed)]


def run(training: Training, out: Path, tick: Callable[[float], Any], stop: threading.Event) -> Arrays:
    """Train into a folder, or go on there; steps, returns and scores of every seed."""
    out.parent.mkdir(exist_ok=True)
    folders = training.folders(out)
    command = [sys.executable, "-m", training.module, *training.arguments, "--out", str(out)]
    _process(training.name, command, out.parent / f"{training.name}.log", stop, lambda: tick(_done(training, folders)))
    results = [_result(folder) for folder in folders]
    if training.in_sumo and find_spec("libsumo") is not None:
        for folder, result in zip(folders, results, strict=True):
            result["sumo"] = _score_in_sumo(folder, training, stop)
    shortest = min(len(result["steps"]) for result in results)
    together = {name: np.stack([r[name][:shortest] for r in results]) for name in ("steps", "returns")}
    return together | {name: np.array([r[name] for r in results]) for name in _SCORES}


_SCORES = ("final", "sampled", "sumo", "variance_ratio")


def _process(name: str, command: list[str], log: Path, stop: threading.Event, look: Callable[[], Any]) -> None:
    """Run a command to its end, or until it shall stop, and look in between."""
    quiet = {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}  # a core for each run
    quiet |= {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # there may be others on the GPU
    with (
        log.open("w") as file,
        subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=os.environ | quiet) as process,
    ):
        try:
            while process.poll() is None:
                if stop.is_set():
                    raise Stopped
                look()
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        finally:
            process.terminate()  # which has it write its checkpoint
            process.wait()
    if process.returncode:
        raise RuntimeError(f"{name}: ended with code {process.returncode}; {log} says why")


def _result(folder: Path) -> dict[str, Any]:
    rows = [row for row in runs.metrics(folder) if "rollout/ep_rew_mean" in row]
    evaluation = json.loads((folder / "evaluation.json").read_bytes())
    ratios = [row["variance/ratio"] for row in rows if "variance/ratio" in row]
    return {
        "steps": np.array([row["time/total_timesteps"] for row in rows]),
        "returns": np.array([row["rollout/ep_rew_mean"] for row in rows]),
        "final": evaluation["return"],
        "sampled": evaluation.get("sampled", np.nan),
        "sumo": np.nan,
        "variance_ratio": np.median(ratios) if ratios else np.nan,
    }


def _score_in_sumo(folder: Path, training: Training, stop: threading.Event) -> float:
    """The return of most probable actions, in a process of its own: libsumo has room for one simulation."""
    log = folder / "sumo.json"
    given = ["evaluate", str(folder), "--sim", "sumo", "--episodes", str(training.in_sumo), "--json"]
    _process(f"{training.name} in SUMO", [sys.executable, "-m", "factorax.cli", *given], log, stop, lambda: None)
    return json.loads(log.read_text(encoding="utf-8").splitlines()[-1])["return"]


def _done(training: Training, folders: Sequence[Path]) -> float:
    return min(_steps_so_far(folders[-1]) / training.steps, 1.0)


def _steps_so_far(out: Path) -> int:
    """By the last whole line alone: there may be many long ones, and this is asked twice a second."""
    path = out / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    whole = next((line for line in reversed(lines) if line.endswith("}")), None)
    return 0 if whole is None else json.loads(whole)["time/total_timesteps"]


def curves(plan: Sequence[Training], results: list[Arrays], points: int = 100) -> Table:
    """A row for each run and point of its curve: the mean return since the point before; and for the final policy."""
    columns: dict[str, list[Any]] = {name: [] for name in ("method", "seed", "steps", "return", *_SCORES)}
    for training, result in zip(plan, results, strict=True):
        for i in range(training.seeds):
            scores = [float(result[name][i]) for name in _SCORES]
            parts = min(points, len(result["steps"][i]))
            split = (np.array_split(result[k][i], parts) for k in ("steps", "returns"))
            for steps, returns in zip(*split, strict=True):
                row = (training.method, training.seed + i, int(steps[-1]), float(returns.mean()), *scores)
                for name, value in zip(columns, row, strict=True):
                    columns[name].append(value)
    return {name: np.array(values) for name, values in columns.items()}


def group(rows: Table, name: str) -> Group:
    """The curves of one method, all seeds on the points of the shortest."""
    by_seed = [where(rows, seed=seed) for seed in np.unique(rows["seed"])]
    steps = min((r["steps"] for r in by_seed), key=len)
    return Group(name, steps, np.stack([np.interp(steps, r["steps"], r["return"]) for r in by_seed]))


def finals(table: Table, method: str, score: Literal["final", "sampled", "sumo"] = "final") -> np.ndarray:
    """The return of every seed's final policy: with its most probable actions, with drawn ones, or in SUMO."""
    rows = where(table, method=method)
    return np.array([where(rows, seed=seed)[score][0] for seed in np.unique(rows["seed"])])


def late(table: Table, method: str) -> np.ndarray:
    """The mean return of every seed over the last tenth of training."""
    return group(where(table, method=method), method).final


def summary(table: Table, methods: Sequence[str]) -> dict[str, Any]:
    """Interquartile means of final policies and of the end of training; chances that the first beats the others."""
    rows = {}
    for method in methods:
        final, end = finals(table, method), late(table, method)
        ratios = where(table, method=method)["variance_ratio"]
        rows[method] = {
            "final": vars(iqm(final)),
            "training": vars(iqm(end)),
            "seeds": len(final),
            "better": vars(probability_of_improvement(late(table, methods[0]), end)),
            "variance_ratio": None if np.isnan(ratios).all() else float(np.nanmedian(ratios)),
        }
    return rows


def shown(figures: dict[str, Any]) -> str:
    """An interval as text."""
    return str(Interval(**figures))
