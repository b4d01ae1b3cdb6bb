"""Scores of trained policies in SUMO, measured by the same command or by a later one where SUMO is installed.

Policies and controllers run in separate processes, because libsumo runs one simulation per process. One process scores
all seeds of a training with ``python -m factorax_paper.harness.sumo_scores EPISODES FOLDER…``.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from factorax_traffic.controller_scores import controller_returns
from factorax_traffic.families import in_sumo

from factorax.ppo import FactoredPPO
from factorax.problems.registry import find_problem
from factorax.runs.folder import read_config

from .parts import Arrays, Part, Progress
from .table import Table
from .trainings import Training, run_process

ON_CPU = {"JAX_PLATFORMS": "cpu"}
"""Environment variables of these processes: SUMO takes most of the time, and small networks are not faster on a GPU."""


def missing_scores(
    table: Table, plan: Sequence[Training], controllers: Mapping[str, str], *, out: Path, episodes: int
) -> list[Part]:
    """Return parts for the rows whose column ``"sumo"`` is NaN: one per training and one per controller; none if SUMO
    is not installed.

    - `plan`: the trainings, whose folders are in ``out/runs``. Runs without a checkpoint there are left out.
    - `controllers`: maps a value of the column ``"method"`` to a controller and a problem, as in ``"gap-out
      traffic:3x3"``. The rows of a controller are its episodes, in order.


    """
    if find_spec("libsumo") is None:
        return []
    lacking = np.isnan(table["sumo"])
    parts = []
    for training in plan:
        rows = {}
        folders = training.folders(out / "runs" / training.name)
        for (method, seed), folder in zip(training.labels, folders, strict=True):
            of_seed = (table["method"] == method) & (table["seed"] == seed)
            if (of_seed & lacking).any() and (folder / "checkpoints" / "last.safetensors").exists():
                rows[folder] = np.flatnonzero(of_seed)
        if rows:
            parts.append(_part(training.name, [str(folder) for folder in rows], list(rows.values()), episodes))
    for method, controller in controllers.items():
        rows_of = np.flatnonzero((table["method"] == method) & lacking)
        if rows_of.size:
            name = method.replace(" ", "-").replace(",", "")
            parts.append(_part(name, [controller], [rows_of], rows_of.size, by_episode=True))
    return parts


def _part(
    name: str, players: Sequence[str], rows: Sequence[np.ndarray], episodes: int, *, by_episode: bool = False
) -> Part:
    """Return the part that fills in the rows of each policy or controller: the mean over episodes, or one row per
    episode."""

    def compute(progress: Progress) -> Arrays:
        log = progress.checkpoint.parent / f"{name}.jsonl"
        command = [sys.executable, "-m", __name__, str(episodes), *players]
        run_process(log, command, progress, lambda: min(len(_scores(log)) / len(players), 1.0), ON_CPU)
        values = [
            np.array(returns) if by_episode else np.full(len(of_player), np.mean(returns))
            for returns, of_player in zip(_scores(log), rows, strict=True)
        ]
        return {"rows": np.concatenate(rows), "sumo": np.concatenate(values)}

    return Part(f"{name} in SUMO", episodes * len(players), compute)


def _scores(log: Path) -> list[list[float]]:
    """Return the complete lines that a process has printed: each has the episode returns of one policy or
    controller."""
    lines = log.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.startswith("[") and line.endswith("]")]


def returns_in_sumo(player: str, episodes: int) -> list[float]:
    """Return the return of each episode in SUMO, with most probable actions. The argument is a run folder, or a
    controller and a problem as in ``"gap-out traffic:3x3"``."""
    if " " in player and not Path(player).exists():
        controller, problem = player.split(" ")
        return controller_returns(controller, problem, episodes=episodes, sumo=True).tolist()
    model = FactoredPPO.load(Path(player)).on(find_problem(in_sumo(read_config(Path(player))["problem"])))
    try:
        return model.evaluate(episodes)["episodes"].tolist()
    finally:
        model.close()


if __name__ == "__main__":
    for each in sys.argv[2:]:
        print(json.dumps(returns_in_sumo(each, int(sys.argv[1]))), flush=True)
