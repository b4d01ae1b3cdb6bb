"""Parts of experiments that train: each run is a process with its own run folder, so runs use all cores and can be
resumed."""

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes

from factorax.ppo.named_networks import folder_name
from factorax.runs.compare import Group
from factorax.runs.folder import read_metrics
from factorax.runs.statistics import Interval, iqm, probability_of_improvement

from .parts import Arrays, Part, Progress
from .table import Table, where

_SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(frozen=True)
class Training:
    """One method with one seed, or several seeds and networks that one process trains at once."""

    method: str
    seed: int
    steps: int
    module: str
    """The module to run with ``python -m``; it writes ``metrics.jsonl`` and ``evaluation.json`` into its ``--out``."""
    arguments: tuple[str, ...]
    seeds: int = 1
    """Number of seeds, starting with `seed`."""
    networks: tuple[tuple[str, str], ...] = ()
    """Methods that differ only in their networks, with the names of the networks; one process trains all of them."""

    @property
    def name(self) -> str:
        """Name of its folder."""
        return f"{self.method}-{self.seed}".replace(" = ", "-").replace(" ", "-").replace(",", "")

    def folders(self, out: Path) -> list[Path]:
        """Return the folders of the runs, one for each method and seed."""
        if self.networks:
            named = [folder_name(network) for _, network in self.networks]
            return [out / name / f"seed-{self.seed + i}" for name in named for i in range(self.seeds)]
        return [out] if self.seeds == 1 else [out / f"seed-{self.seed + i}" for i in range(self.seeds)]

    @property
    def labels(self) -> list[tuple[str, int]]:
        """Method and seed of each folder."""
        methods = [method for method, _ in self.networks] or [self.method]
        return [(method, self.seed + i) for method in methods for i in range(self.seeds)]


def train(
    method: str,
    problem: str,
    *options: Any,
    seed: int,
    steps: int,
    seeds: int = 1,
    networks: Mapping[str, str] | None = None,
    preset: str = "none",
) -> Training:
    """Return a run of ``factorax train`` with these command-line options.

    `networks`: the network name of each method, if one process trains several.
    """
    arguments = ["train", problem, "--preset", preset, "--seed", seed, "--total-timesteps", steps, "--seeds", seeds]
    arguments += [*options, *(("--networks", *networks.values()) if networks else ())]
    return Training(
        method=method,
        seed=seed,
        steps=steps,
        module="factorax.cli",
        arguments=tuple(map(str, arguments)),
        seeds=seeds,
        networks=tuple(networks.items()) if networks else (),
    )


def trainings(
    plan: Callable[[Any, int], Sequence[Training]], measured: Callable[[Path], Arrays] = lambda out: {}
) -> Callable[[Any, int], list[Part]]:
    """Return the function ``parts`` of an experiment: from (settings, seed) to one part for each run of `plan`.

    `measured` reads more results from the folder of a finished run.
    """

    def part(training: Training) -> Part:
        def compute(progress: Progress) -> Arrays:
            return run(training, progress) | measured(progress.runs / training.name)

        return Part(training.name, training.steps * len(training.labels), compute)

    return lambda settings, seed: [part(training) for training in plan(settings, seed)]


def run(training: Training, progress: Progress) -> Arrays:
    """Train into the folder of its name, or resume the run there; return steps, returns and scores of every seed."""
    out = progress.runs / training.name
    folders = training.folders(out)
    command = [sys.executable, "-m", training.module, *training.arguments, "--out", str(out)]
    run_process(progress.runs / f"{training.name}.log", command, progress, lambda: _done(training, folders))
    results = [_result(folder) for folder in folders]
    # An array needs curves of one length, and rows without an ended episode have been left out.
    shortest = min(len(result["steps"]) for result in results)
    together = {name: np.stack([r[name][:shortest] for r in results]) for name in ("steps", "returns")}
    return together | {name: np.array([r[name] for r in results]) for name in _SCORES}


_SCORES = ("final", "sampled", "sumo", "variance_ratio")


def run_process(
    log: Path,
    command: list[str],
    progress: Progress,
    done: Callable[[], float],
    variables: Mapping[str, str] | None = None,
) -> None:
    """Run a command until it ends, or until the part must stop.

    - `log`: a file for what the command prints.
    - `done`: returns the fraction done.
    - `variables`: additional environment variables.
    """
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"
    quiet = {"OMP_NUM_THREADS": "1", "XLA_FLAGS": flags}  # one core per run
    quiet |= {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # other processes may use the same GPU
    environment = os.environ | quiet | dict(variables or {})
    with (
        log.open("w") as file,
        subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment) as process,
    ):
        try:
            while process.poll() is None:
                progress.tick(done())
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        finally:
            process.terminate()  # it writes its checkpoint on this signal
            process.wait()
    if process.returncode:
        raise RuntimeError(f"{log.stem}: ended with code {process.returncode}; {log} says why")


def process(name: str, module: str, work: Any) -> Callable[[Progress], Arrays]:
    """Return the function ``compute`` of a part: it runs a module of the harness, which prints fractions and
    writes an NPZ file.

    - `name`: name of its files in the folder ``runs`` of the experiment.
    - `work`: a dataclass that describes the work; the arguments of the module are its JSON and the output file.
    """

    def compute(progress: Progress) -> Arrays:
        log, out = progress.runs / f"{name}.log", progress.runs / f"{name}.npz"

        def done() -> float:
            lines = log.read_text(encoding="utf-8").split() if log.exists() else []
            return next((float(line) for line in reversed(lines) if line.startswith(("0.", "1."))), 0.0)

        described = json.dumps(dataclasses.asdict(work))
        run_process(log, [sys.executable, "-m", f"{__package__}.{module}", described, str(out)], progress, done)
        with out.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return dict(archive)

    return compute


def _result(folder: Path) -> dict[str, Any]:
    rows = [row for row in read_metrics(folder) if "rollout/ep_rew_mean" in row]
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


def _done(training: Training, folders: Sequence[Path]) -> float:
    return min(_steps_so_far(folders[-1]) / training.steps, 1.0)


def _steps_so_far(out: Path) -> int:
    """Return the steps of the last complete line. Only this line is read: files are long, and this is called twice a
    second."""
    path = out / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    # The process may be writing the last line.
    whole = next((line for line in reversed(lines) if line.endswith("}")), None)
    return 0 if whole is None else json.loads(whole)["time/total_timesteps"]


def curves(plan: Sequence[Training], results: list[Arrays], points: int = 100) -> Table:
    """Return a row for each run and point of its curve: the mean return since the previous point, and final scores."""
    columns: dict[str, list[Any]] = {name: [] for name in ("method", "seed", "steps", "return", *_SCORES)}
    for training, result in zip(plan, results, strict=True):
        for i, (method, seed) in enumerate(training.labels):
            scores = [float(result[name][i]) for name in _SCORES]
            parts = min(points, len(result["steps"][i]))
            split = (np.array_split(result[k][i], parts) for k in ("steps", "returns"))
            for steps, returns in zip(*split, strict=True):
                row = (method, seed, int(steps[-1]), float(returns.mean()), *scores)
                for name, value in zip(columns, row, strict=True):
                    columns[name].append(value)
    return {name: np.array(values) for name, values in columns.items()}


def group(rows: Table, name: str) -> Group:
    """Return the curves of one method, interpolated to the points of the shortest."""
    by_seed = [where(rows, seed=seed) for seed in np.unique(rows["seed"])]
    steps = min((r["steps"] for r in by_seed), key=len)
    return Group(name=name, steps=steps, returns=np.stack([np.interp(steps, r["steps"], r["return"]) for r in by_seed]))


def plot_returns(ax: Axes, steps: np.ndarray, returns: np.ndarray, *, alpha: float = 0.15, **line: Any) -> Any:
    """Plot interquartile means over seeds with their intervals, of returns ``(seeds, points)``; return the line."""
    points = [iqm(column) for column in returns.T]
    (drawn,) = ax.plot(steps, [p.mean for p in points], **line)
    if len(returns) > 1:
        low, high = [p.low for p in points], [p.high for p in points]
        ax.fill_between(steps, low, high, color=line["color"], alpha=alpha, linewidth=0)
    return drawn


def finals(table: Table, method: str, score: Literal["final", "sampled", "sumo"] = "final") -> np.ndarray:
    """Return the return of each seed's final policy: with most probable actions, with sampled ones, or in SUMO."""
    rows = where(table, method=method)
    return np.array([where(rows, seed=seed)[score][0] for seed in np.unique(rows["seed"])])


def late(table: Table, method: str) -> np.ndarray:
    """Return the mean return of each seed over the last tenth of training."""
    return group(where(table, method=method), method).final


def summary(table: Table, methods: Sequence[str]) -> dict[str, Any]:
    """Return interquartile means of final policies and of the end of training, and the probability that the first
    method beats each."""
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


def shown(interval: dict[str, Any]) -> str:
    """Return an interval, a dictionary of its fields, as text."""
    return str(Interval(**interval))
