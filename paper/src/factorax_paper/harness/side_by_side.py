"""Train one method on one problem with a grid of settings, in its own process; on JAX problems, all runs at once.

    python -m factorax_paper.harness.side_by_side '{"problem": …, "method": …, …}' OUT.npz

On a JAX problem, all settings and seeds are trained by one compiled program, so a GPU trains a whole grid in the time
of a few runs. On other problems, runs are distributed over one process per tuning seed: first the tuning seeds of all
settings, then the remaining seeds of the setting with the best tuning score. Finished runs are stored in OUT.jsonl, so
that the same command resumes.
"""

import dataclasses
import json
import multiprocessing
import os
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from factorax._files import write_whole
from factorax.ppo import Compiled, Config, Learner, TrainState, find_network
from factorax.ppo.presets import NONE, network_of, settings_with
from factorax.problems import find_problem
from factorax.spec import is_jax

from .parts import Arrays

LATE = 0.1
"""Fraction of training, at its end, over which the mean return is the score of a run."""


@dataclass(frozen=True)
class Grid:
    """A method on a problem, with its trials and seeds."""

    problem: str
    method: str
    """Name of the method; `settings` may have the same with settings of its own."""
    steps: int
    """Number of steps of a run, summed over all environments."""
    settings: dict[str, Any]
    """Settings common to all methods, with the names of `Config`."""
    rates: tuple[float, ...]
    bonuses: tuple[float, ...]
    """Step sizes and entropy bonuses; every pair is tried."""
    first: int
    """The first seed. Tuning seeds come before reported seeds."""
    tuning: int
    seeds: int

    @property
    def trials(self) -> list[tuple[float, float]]:
        """All pairs of a step size and an entropy bonus."""
        return [(rate, bonus) for rate in self.rates for bonus in self.bonuses]

    @property
    def config(self) -> Config:
        """The settings of the method."""
        settings = {name: _hashable(value) for name, value in self.settings.items()}
        settings = settings_with(NONE, {"method": self.method} | settings)
        return Config.of({"total_timesteps": self.steps, "check_network": False} | settings)

    @property
    def learner(self) -> Learner:
        """The learner of all runs."""
        problem, network = find_problem(self.problem), network_of(NONE, self.config.method)
        return Learner.of(problem, None if network is None else find_network(problem, network), self.config)


def _hashable(value: Any) -> Any:
    # JSON has lists where settings have tuples.
    return tuple(value) if isinstance(value, list) else value


def scores(returns: np.ndarray, episodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean return of the episodes that ended in the last tenth of training, and of the first episodes.

    - `returns`, `episodes`: mean return and number of the episodes that ended in every rollout, ``(rollouts, runs)``.

    >>> late, first = scores(np.array([[1.0], [0.0], [5.0]]), np.array([[2], [0], [1]]))
    >>> late.tolist(), first.tolist()
    ([5.0], [1.0])
    """
    count = max(round(LATE * len(returns)), 1)
    # Where episodes are longer than a rollout, go back until every run has one that ended.
    while count < len(returns) and not episodes[-count:].sum(axis=0).all():
        count += 1
    weight = episodes[-count:]
    returns = np.where(episodes > 0, returns, 0.0)  # NaN where no episode ended
    late = (returns[-count:] * weight).sum(axis=0) / np.maximum(weight.sum(axis=0), 1)
    return late, returns[(episodes > 0).argmax(axis=0), np.arange(returns.shape[1])]


def train(grid: Grid, file: Path | None = None) -> Arrays:
    """Return ``rate``, ``bonus``, ``seed``, ``score`` and ``untrained`` of all runs, and ``seconds`` per run.

    - `file`: for the rows of finished runs, for problems on the host; runs that are already in it are not
      repeated.
    """
    return _at_once(grid) if is_jax(find_problem(grid.problem)) else _one_by_one(grid, file)


def _at_once(grid: Grid) -> Arrays:
    learner, seeds = grid.learner, grid.tuning + grid.seeds
    rows = [(rate, bonus, grid.first + i) for rate, bonus in grid.trials for i in range(seeds)]
    rate, bonus, seed = (np.array(column) for column in zip(*rows, strict=True))
    state = initial_states(learner, rate, bonus, seed)
    started, compiled, program = time.perf_counter(), 0.0, Compiled(learner)
    rollouts = -(-grid.steps // learner.config.rollout_steps)
    returns, episodes = np.zeros((2, rollouts, len(rows)))
    done = 0
    while done < rollouts:
        # The first call makes one update: it compiles the program, which tells how many more it can make at once.
        count = min(rollouts - done, program.max_updates)
        state, metrics = program.updates(state, count)
        returns[done : done + count] = metrics["rollout/ep_rew_mean"][:count]
        episodes[done : done + count] = metrics["rollout/episodes"][:count]
        compiled = compiled or time.perf_counter()
        done += count
        print(f"{done / rollouts:.4f}", flush=True)
    seconds = (time.perf_counter() - compiled) * rollouts / max(rollouts - 1, 1) / len(rows)
    late, untrained = scores(returns, episodes)
    return {
        "rate": rate,
        "bonus": bonus,
        "seed": seed,
        "score": late,
        "untrained": untrained,
        "seconds": np.full(len(rows), seconds),
        "compiling": np.full(len(rows), compiled - started),
    }


def initial_states(learner: Learner, rate: np.ndarray, bonus: np.ndarray, seed: np.ndarray) -> TrainState:
    """Return the stacked initial states of all runs."""

    # One after another: compiled for a batch, XLA on a CPU may hang in the decompositions that give layers their
    # initial orthogonal matrices.
    states = [
        learner.init(int(s), learning_rate=float(r), ent_coef=float(b))
        for s, r, b in zip(seed, rate, bonus, strict=True)
    ]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


_NAMES = ("rate", "bonus", "seed", "score", "untrained", "seconds", "compiling")
_Run = tuple[float, float, int]
"""Step size, entropy bonus and seed."""


def _one_by_one(grid: Grid, file: Path | None) -> Arrays:
    """Distribute tuning seeds over processes, then the reported seeds of the best trial."""
    processes = max(min(grid.tuning or grid.seeds, os.cpu_count() or 1), 1)
    rows = _read_rows(grid, file)
    total = len(grid.trials) * grid.tuning + grid.seeds

    def rows_of(runs: list[_Run]) -> list[list[Any]]:
        missing = [run for run in runs if run not in rows]
        for future in as_completed([pool.submit(_row, *run) for run in missing]):
            row = future.result()
            rows[row[0], row[1], row[2]] = row
            if file is not None:
                with file.open("a", encoding="utf-8") as opened:
                    opened.write(json.dumps(row) + "\n")
            print(f"{len(rows) / total:.4f}", flush=True)
        return [rows[run] for run in runs]

    # Start fresh processes: JAX does not work after a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_begin, initargs=(grid,)) as pool:
        tuning = rows_of([(*trial, grid.first + i) for trial in grid.trials for i in range(grid.tuning)])
        tuned = np.array([row[3] for row in tuning]).reshape(len(grid.trials), grid.tuning).mean(axis=1)
        best = grid.trials[int(np.nanargmax(tuned))]
        reported = rows_of([(*best, grid.first + i) for i in range(grid.tuning, grid.tuning + grid.seeds)])
    return {name: np.array(column) for name, column in zip(_NAMES, zip(*tuning, *reported, strict=True), strict=True)}


def _read_rows(grid: Grid, file: Path | None) -> dict[_Run, list[Any]]:
    """Return the rows of finished runs, by run.

    The first line of the file describes the grid; a file of another grid is overwritten. An incomplete last line, from
    a killed process, is ignored.
    """
    if file is None:
        return {}
    described = json.dumps(dataclasses.asdict(grid))
    first, *lines = file.read_text(encoding="utf-8").split("\n") if file.exists() else [""]
    if first != described:
        file.write_text(described + "\n", encoding="utf-8")
        return {}
    rows = [json.loads(line) for line in lines if line.endswith("]")]
    text = "".join(f"{line}\n" for line in (described, *map(json.dumps, rows)))
    write_whole(file, lambda opened: opened.write(text.encode()))
    return {(row[0], row[1], row[2]): row for row in rows}


def end_with_parent() -> None:
    """Make this pool process end together with its parent; otherwise it would continue after the parent is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


_state: dict[str, Any] = {}
"""State of a pool process: the grid and its compiled learner, shared by all its runs."""


def _begin(grid: Grid) -> None:
    """Prepare this process of a pool for runs of a grid."""
    end_with_parent()
    _state.update(grid=grid, compiled=Compiled(grid.learner))


def _row(rate: float, bonus: float, seed: int) -> list[Any]:
    """Train one run in this process; return the values named in `_NAMES`."""
    grid, compiled = _state["grid"], _state["compiled"]
    learner = compiled.learner
    # Separate environments, so that they have the seed of the run.
    collector = dataclasses.replace(learner, config=dataclasses.replace(learner.config, seed=seed)).new_collector()
    state = learner.init(seed, learning_rate=rate, ent_coef=bonus)
    started, history = time.perf_counter(), []
    try:
        while int(state.timesteps) < grid.steps:
            _, key, transitions = collector.collect(learner.behaviour(state), state.environments, state.key)
            state, metrics = compiled.learn_from(state._replace(key=key), transitions)
            history.append([float(metrics["rollout/ep_rew_mean"]), float(metrics["rollout/episodes"])])
    finally:
        collector.close()
    returns, episodes = np.array(history).T[:, :, None]
    late, untrained = scores(returns, episodes)
    return [rate, bonus, seed, float(late[0]), float(untrained[0]), time.perf_counter() - started, 0.0]


def main(arguments: list[str]) -> None:
    """Train the runs that the first argument describes, and write the results to the file in the second."""
    described = json.loads(arguments[0])
    grid = Grid(**{name: _hashable(value) for name, value in described.items()})
    result = train(grid, Path(arguments[1]).with_suffix(".jsonl"))
    write_whole(Path(arguments[1]), lambda file: np.savez(file, allow_pickle=False, **result))


if __name__ == "__main__":
    main(sys.argv[1:])
