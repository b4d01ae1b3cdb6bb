"""Sweeps of the bandit engine that can be stopped and resumed."""

import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from factorax._files import write_whole
from factorax.problems import Bandit, draw_centre, search_bandit

from .bandit_engine import BanditLearner, BanditMethod, Runs
from .parts import Arrays, Part, Progress, Stopped

PRETRAINING = 1000  # episodes in which a learnt baseline learns alone (App. D)
_PRETRAINING_CLOCK = 2**30  # step at which its noise starts, so that all methods learn from the same noise afterwards
_SECONDS_BETWEEN_CHECKPOINTS = 5.0

MEASURES: dict[str, Callable[[Bandit, Any], Any]] = {
    "last component": lambda bandit, mu: (mu[..., -1] - bandit.best[-1]) ** 2
}


class Family(Protocol):
    """Bandits that differ in a vector of parameters; a dataclass, so that it can be stored as JSON."""

    @property
    def n(self) -> int:
        """Number of actions."""
        ...

    @property
    def label(self) -> str:
        """Name in figures and file names."""
        ...

    def draw(self, seed: Sequence[int]) -> np.ndarray:
        """Return the parameters of one bandit, ``(n,)``."""
        ...

    def make(self, centre: Any) -> Bandit:
        """Return the bandit with these parameters, which JAX may trace."""
        ...


@dataclass(frozen=True)
class Search:
    """A search bandit with a different centre for every seed."""

    n: int
    k: int = 0
    penalty: float = 0.0
    norm: Literal[1, 2] = 1
    """p of the distance ‖a − c‖ₚ."""
    scale: float | None = None
    """A factor on all targets instead of 1/n; 1 leaves them undivided."""

    @property
    def label(self) -> str:
        """Name in figures and file names."""
        parts = [f"n={self.n}"] + [f"k={self.k}"] * (self.k > 0) + [f"p={self.norm}"] * (self.norm != 1)
        return " ".join(parts + ([] if self.scale is None else [f"scale={self.scale:g}"]))

    def draw(self, seed: Sequence[int]) -> np.ndarray:
        """Return a centre, ``(n,)``."""
        return draw_centre(self.n, seed)

    def make(self, centre: Any) -> Bandit:
        """Return the bandit with this centre."""
        return search_bandit(centre, k=self.k, penalty=self.penalty, norm=self.norm, scale=self.scale)


@dataclass(frozen=True)
class Job:
    """All runs of one method on one family of bandits: every seed with every step size."""

    problem: Family
    method: BanditMethod
    step_sizes: tuple[float, ...]
    seeds: int
    steps: int
    every: int
    """Steps between records; divergence is checked at the same steps."""
    tolerance: float | None = None
    """Gap at or below which a run has finished."""
    measure: str | None = None
    """A key of `MEASURES`; by default the gap."""

    def __post_init__(self) -> None:
        if self.steps < 1 or self.every < 2 or self.every % 2 or self.steps % self.every:
            raise ValueError(f"every: got {self.every} of {self.steps} steps, want an even divisor")
        if self.seeds < 1 or not self.step_sizes:
            raise ValueError(f"seeds, step_sizes: got {self.seeds} and {self.step_sizes}, want at least one of each")
        if self.measure is not None and self.measure not in MEASURES:
            raise ValueError(f"measure: got {self.measure!r}, want one of {', '.join(MEASURES)}, or None for the gap")

    @property
    def name(self) -> str:
        """Name in figures and file names."""
        return f"{self.method.label} {self.problem.label} η≤{max(self.step_sizes):g}"

    @property
    def cost(self) -> float:
        """An upper bound of the work, for the progress bar."""
        return self.seeds * len(self.step_sizes) * self.steps * (self.problem.n + 30.0)


def sweeps(jobs: Callable[[Any], Sequence[Job]]) -> Callable[[Any, int], list[Part]]:
    """Return the function ``parts`` of an experiment: maps (settings, seed) to one part per job."""
    return lambda settings, seed: [Part(job.name, job.cost, partial(run, job, seed)) for job in jobs(settings)]


def run(job: Job, seed: int, progress: Progress | None = None) -> Arrays:
    """Run a job from its checkpoint, or from the start.

    Run r draws its centre and its noise from (`seed`, r): it is the same run in any job and any batch. Runs that have
    diverged or finished are frozen; a step size whose runs are all frozen leaves the batch.

    **Returns** arrays for T records, S seeds and G step sizes: ``step`` (T,); ``gap`` and ``measure`` (T, S, G),
    infinite after a run has diverged; ``reached`` (S, G), the step at which the tolerance was met, or −1.

    - `progress`: its checkpoint is continued from, and written every few seconds and when the run is stopped.
    """
    learner = BanditLearner(
        make=job.problem.make,
        method=job.method,
        tolerance=job.tolerance,
        measure=MEASURES[job.measure] if job.measure else None,
    )
    keys = jnp.array([[seed, r] for r in range(job.seeds)], jnp.uint32)
    centres = np.stack([job.problem.draw([seed, r]) for r in range(job.seeds)]).astype(np.float32)
    step_sizes = np.asarray(job.step_sizes, np.float32)
    advance = jax.jit(learner.advance, static_argnames="steps")
    identity = json.dumps({"job": dataclasses.asdict(job), "seed": seed})

    checkpoint = progress.checkpoint if progress else None
    state = _load(checkpoint, identity)
    if state is None:
        runs = learner.init(centres, len(step_sizes))
        if job.method.baseline != "none":
            taught, _, _ = advance(runs, keys, centres, 0 * step_sizes, _PRETRAINING_CLOCK, steps=PRETRAINING)
            runs = runs._replace(baseline=taught.baseline)
        records = np.full((2, job.steps // job.every, *runs.active.shape), np.nan, np.float32)
        state = State(
            identity=identity,
            done=0,
            columns=np.arange(len(step_sizes)),
            reached=np.asarray(runs.reached).copy(),
            records=records,
            runs=runs,
        )
    written = time.monotonic()
    while state.done < job.steps // job.every and len(state.columns):
        runs, gap, measure = advance(
            state.runs, keys, centres, step_sizes[state.columns], state.done * job.every, steps=job.every
        )
        if (lowest := float(np.min(gap))) < 0:
            raise ValueError(
                f"problem: the gap of {job.name} came to {lowest:.3g}, below 0 by more than rounding; want `best` "
                "of the bandit to be the action that maximises the reward"
            )
        state = state.after(runs, np.asarray(gap), np.asarray(measure))
        stopping = False
        if progress is not None:
            progress.report(state.done * job.every / job.steps)
            stopping = progress.stop.is_set()
        if checkpoint is not None and (stopping or time.monotonic() - written > _SECONDS_BETWEEN_CHECKPOINTS):
            state.save(checkpoint)
            written = time.monotonic()
        if stopping:
            raise Stopped
    if progress is not None:
        progress.report(1.0)
    gap, measure = state.records
    step = np.arange(job.every, job.steps + 1, job.every)
    return {"step": step, "gap": gap, "measure": measure, "reached": state.reached}


@dataclass(frozen=True)
class State:
    """The state of a job between two records."""

    identity: str
    done: int
    """Number of records so far."""
    columns: np.ndarray
    """Indices of the step sizes still in the batch."""
    reached: np.ndarray
    """As in `Runs`, for all step sizes, ``(S, G)``."""
    records: np.ndarray
    """Gap and measure, ``(2, T, S, G)``."""
    runs: Runs
    """State of the runs with the step sizes in the batch."""

    def after(self, runs: Runs, gap: np.ndarray, measure: np.ndarray) -> "State":
        """Return the state with one more record; finished step sizes leave the batch once at least half of them are
        finished."""
        # Fill all later records: frozen runs keep these values.
        self.records[:, self.done :, :, self.columns] = np.stack([gap, measure])[:, None]
        self.reached[:, self.columns] = runs.reached
        live = np.asarray(runs.active).any(axis=0)
        columns = self.columns
        if 2 * live.sum() <= len(columns):  # each batch size is compiled separately, so only halve it
            columns, runs = columns[live], jax.tree.map(lambda leaf: leaf[:, live], runs)
        return dataclasses.replace(self, done=self.done + 1, columns=columns, runs=runs)

    def save(self, path: Path) -> None:
        """Write the state atomically."""
        arrays = {name: getattr(self, name) for name in ("identity", "done", "columns", "reached", "records")}
        arrays |= {f"runs_{name}": np.asarray(leaf) for name, leaf in self.runs._asdict().items()}
        write_whole(path, lambda file: np.savez(file, **arrays))


def _load(path: Path | None, identity: str) -> State | None:
    if path is None or not path.exists():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = dict(archive)
        runs = Runs(*(jnp.asarray(arrays[f"runs_{name}"]) for name in Runs._fields))
    except Exception as error:  # a damaged archive may raise any exception of zip and zlib
        raise ValueError(f"{path}: not a checkpoint, or damaged; remove it to start again") from error
    if str(arrays["identity"]) != identity:
        raise ValueError(f"{path}: a checkpoint of another job; remove it to start again")
    return State(
        identity=identity,
        done=int(arrays["done"]),
        columns=arrays["columns"],
        reached=arrays["reached"],
        records=arrays["records"],
        runs=runs,
    )
