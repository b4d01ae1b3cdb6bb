"""Experiments that train: every run a process of its own in a run folder, so that all cores work and all continue."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """One run of one method."""

    method: str
    seed: int
    steps: int
    module: str
    """What is run, as in ``python -m``; it writes ``metrics.jsonl`` and ``evaluation.json`` into its ``--out``."""
    arguments: tuple[str, ...]

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.method}-{self.seed}".replace(" ", "-")


def train(method: str, problem: str, seed: int, steps: int, *options: Any) -> Training:
    """A run of ``factorax train``."""
    given = [problem, "--seed", seed, "--total-timesteps", steps, *options]
    return Training(method, seed, steps, "factorax.cli", ("train", *map(str, given)))


def trainings(plan: Callable[[Any, int], Sequence[Training]]) -> Callable[[Any, int], list[Part]]:
    """From the runs of some settings to the parts of an experiment with a seed."""

    def part(training: Training) -> Part:
        def compute(checkpoint: Path, tick: Callable[[float], Any], stop: threading.Event) -> Arrays:
            return _run(training, checkpoint.parent.parent / "runs" / training.name, tick, stop)

        return Part(training.name, training.steps, compute)

    return lambda settings, seed: [part(training) for training in plan(settings, seed)]


def _run(training: Training, out: Path, tick: Callable[[float], Any], stop: threading.Event) -> Arrays:
    out.parent.mkdir(exist_ok=True)
    log = out.parent / f"{training.name}.log"
    quiet = {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}  # a core for each run
    command = [sys.executable, "-m", training.module, *training.arguments, "--out", str(out)]
    with (
        log.open("w") as file,
        subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=os.environ | quiet) as process,
    ):
        try:
            while process.poll() is None:
                if stop.is_set():
                    raise Stopped
                tick(min(_steps_so_far(out) / training.steps, 1.0))
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        finally:
            process.terminate()  # which has it write its checkpoint
            process.wait()
    if process.returncode:
        raise RuntimeError(f"{training.name}: ended with code {process.returncode}; {log} says why")
    rows = [row for row in runs.metrics(out) if "rollout/ep_rew_mean" in row]
    evaluation = json.loads((out / "evaluation.json").read_bytes())
    ratios = [row["variance/ratio"] for row in rows if "variance/ratio" in row]
    return {
        "steps": np.array([row["time/total_timesteps"] for row in rows]),
        "returns": np.array([row["rollout/ep_rew_mean"] for row in rows]),
        "final": np.array(evaluation["return"]),
        "variance_ratio": np.array(np.median(ratios) if ratios else np.nan),
    }


def _steps_so_far(out: Path) -> int:
    """By the last whole line alone: there may be many long ones, and this is asked twice a second."""
    path = out / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    whole = next((line for line in reversed(lines) if line.endswith("}")), None)
    return 0 if whole is None else json.loads(whole)["time/total_timesteps"]


def curves(plan: Sequence[Training], results: list[Arrays], points: int = 100) -> Table:
    """A row for each run and point of its curve: the mean return since the point before; and for the final policy."""
    columns: dict[str, list[Any]] = {name: [] for name in ("method", "seed", "steps", "return", "final", "variance")}
    for training, result in zip(plan, results, strict=True):
        parts = min(points, len(result["steps"]))
        for steps, returns in zip(*(np.array_split(result[k], parts) for k in ("steps", "returns")), strict=True):
            row = (training.method, training.seed, int(steps[-1]), float(returns.mean()))
            row += float(result["final"]), float(result["variance_ratio"])
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
    return {name: np.array(values) for name, values in columns.items()}


def group(rows: Table, name: str) -> Group:
    """The curves of one method, all seeds on the points of the shortest."""
    by_seed = [where(rows, seed=seed) for seed in np.unique(rows["seed"])]
    steps = min((r["steps"] for r in by_seed), key=len)
    return Group(name, steps, np.stack([np.interp(steps, r["steps"], r["return"]) for r in by_seed]))


def finals(table: Table, method: str) -> np.ndarray:
    """The return of every seed's final policy."""
    rows = where(table, method=method)
    return np.array([where(rows, seed=seed)["final"][0] for seed in np.unique(rows["seed"])])


def late(table: Table, method: str) -> np.ndarray:
    """The mean return of every seed over the last tenth of training."""
    return group(where(table, method=method), method).final


def summary(table: Table, methods: Sequence[str]) -> dict[str, Any]:
    """Interquartile means of final policies and of the end of training; chances that the first beats the others."""
    rows = {}
    for method in methods:
        final, end = finals(table, method), late(table, method)
        ratios = where(table, method=method)["variance"]
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
