"""Parts of an experiment on cities: every training, and the controllers of every city, is a process."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from factorax_traffic.city.resco import resco_files

from factorax._files import MIB, read_json

from .city_training import GRIDLOCK as GRIDLOCK
from .parts import Arrays, Part, Progress
from .trainings import run_process

SECONDS = {"cologne1": 1.2, "cologne3": 1.7, "cologne8": 1.9, "grid4x4": 3.0}
"""Approximate CPU seconds per episode, used to start the longest trainings first."""
FIRST_SEED = 910_001
"""First evaluation seed; it was used neither for training nor for choosing settings."""


@dataclass(frozen=True)
class CityRun:
    """A training on a city with its evaluations."""

    city: str
    method: str
    network: str
    seed: int
    episodes: int
    evaluations: int
    evaluation_seeds: int
    horizon: int
    played: int = 0
    """Number of episodes per evaluation, which cycles through the evaluation seeds; 0 for all seeds."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `FactoredPPO` that differ from those of the preset."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `CityEnv` that differ from those of RESCO's names."""
    moved_to: str = ""
    """City on which the trained policy is also evaluated; empty for none."""

    @property
    def name(self) -> str:
        """Name of the part and of its folder."""
        return f"{self.city}-{self.method}-{self.seed}"

    @property
    def arguments(self) -> list[str]:
        """Arguments of `city_training`, without the folder."""
        values = {
            "city": self.city,
            "network": self.network,
            "seed": self.seed,
            "episodes": self.episodes,
            "evaluations": self.evaluations,
            "seeds": self.evaluation_seeds,
            "played": self.played,
            "first-seed": FIRST_SEED,
            "settings": json.dumps(dict(self.settings)),
            "environment": json.dumps({"horizon": self.horizon, **self.environment}),
        }
        arguments = [text for name, value in values.items() for text in (f"--{name}", str(value))]
        return [*arguments, *(("--transfer", self.moved_to) if self.moved_to else ())]


def check_installed(cities: Iterable[str]) -> None:
    """Raise ValueError if SUMO or the files of a city are missing."""
    if find_spec("libsumo") is None:
        raise ValueError("cities: SUMO is not installed, want libsumo; pip install 'factorax[sumo]'")
    for city in cities:
        resco_files(city)


def training_part(run: CityRun) -> Part:
    """Return the part that trains; its results are delays of training episodes, of the last evaluations, and in the
    other city."""

    def compute(progress: Progress) -> Arrays:
        out = progress.runs / run.name
        _process("city_training", run.arguments, out, progress, lambda: _episodes(out) / run.episodes)
        result = read_json(out / "result.json", 64 * MIB)
        final = [row for row in result["evaluated"] if row["final"]]
        return {
            "training": np.array(result["episodes"], float),
            "episode": np.array([row["episode"] for row in final], int),
            "delays": np.array([row["delays"] for row in final], float),
            "moved": np.array(result["transfer"].get(run.moved_to, ()), float),
        }

    episodes = run.episodes + run.evaluations * (run.played or run.evaluation_seeds)
    return Part(run.name, episodes * SECONDS.get(run.city, 3.0), compute)


def controllers_part(city: str, names: Sequence[str], seeds: int, horizon: int) -> Part:
    """Return the part that runs the controllers; its result is delays ``(controllers, seeds)``."""

    def compute(progress: Progress) -> Arrays:
        out = progress.runs / f"{city}-controllers"
        arguments = ["--city", city, "--seeds", str(seeds), "--first-seed", str(FIRST_SEED), "--names", *names]
        arguments += ["--environment", json.dumps({"horizon": horizon})]
        _process("city_controllers", arguments, out, progress, lambda: 0.0)
        result = read_json(out / "result.json", MIB)
        return {"delays": np.array([result[name]["delays"] for name in names], float)}

    return Part(f"{city}-controllers", len(names) * seeds, compute)


def _process(module: str, arguments: list[str], out: Path, progress: Progress, done: Callable[[], float]) -> None:
    command = [sys.executable, "-m", f"{__package__}.{module}", *arguments, "--out", str(out)]
    run_process(out.parent / f"{out.name}.log", command, progress, done, variables={"JAX_PLATFORMS": "cpu"})


def _episodes(out: Path) -> int:
    """Return the number of episodes that a training has written so far."""
    try:
        return len(read_json(out / "result.json", 64 * MIB)["episodes"])
    except FileNotFoundError:
        return 0
