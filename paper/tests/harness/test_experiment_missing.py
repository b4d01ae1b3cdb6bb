"""Experiments that could not measure everything where they were run, and how many of their parts run side by side."""

import io
from dataclasses import dataclass, replace

import numpy as np
import pytest
from factorax_paper.harness import experiment as harness
from factorax_paper.harness.experiment import Experiment, reproduce
from factorax_paper.harness.parts import Part
from factorax_paper.harness.table import read_csv
from matplotlib.figure import Figure
from rich.console import Console


@dataclass(frozen=True)
class Settings:
    n: int = 3


def part(name, result, log):
    def compute(progress):
        log.append(name)
        return result

    return Part(name, 1.0, compute)


def toy(log, installed):
    """Trains n runs, and scores those that have no score if `installed` holds anything."""

    def missing(settings, seed, table, out):
        rows = np.flatnonzero(np.isnan(table["score"])) if installed else []
        return [part(f"score {i}", {"rows": np.array([i]), "score": np.array([10.0 * i])}, log) for i in rows]

    return Experiment(
        name="toy",
        title="a toy",
        paper="none",
        budgets={"quick": Settings()},
        parts=lambda settings, seed: [part(f"run {i}", {"loss": np.array(i)}, log) for i in range(settings.n)],
        tabulate=lambda settings, seed, results: {
            "loss": np.array([float(result["loss"]) for result in results]),
            "score": np.full(len(results), np.nan),
        },
        summarise=lambda settings, table: {"scored": int(np.isfinite(table["score"]).sum())},
        draw=lambda settings, table, summary: Figure(),
        claims=lambda settings, summary: [],
        missing=missing,
    )


def go(one, out, **options):
    return reproduce(one, out=out, console=Console(file=io.StringIO()), **options)


def test_what_is_missing_is_measured_by_the_same_command_later(tmp_path):
    log, installed = [], []
    one = toy(log, installed)
    assert go(one, tmp_path / "out", workers=1) == {"scored": 0}
    installed.append("SUMO")
    assert go(one, tmp_path / "out", plot_only=True) == {"scored": 0}
    assert go(one, tmp_path / "out", workers=1) == {"scored": 3}
    assert log == ["run 0", "run 1", "run 2", "score 0", "score 1", "score 2"]
    assert read_csv(tmp_path / "out" / "data.csv")["score"].tolist() == [0, 10, 20]
    assert not (tmp_path / "out" / "missing").exists()
    assert go(one, tmp_path / "out") == {"scored": 3}
    assert len(log) == 6


def test_what_can_be_measured_at_once_is(tmp_path):
    log = []
    assert go(toy(log, ["SUMO"]), tmp_path / "out") == {"scored": 3}
    assert len(log) == 6


@pytest.mark.parametrize(("given", "backend", "used"), [(None, "gpu", 1), (7, "gpu", 7), (1, "cpu", 1)])
def test_workers_are_as_many_as_asked_for(given, backend, used, tmp_path, monkeypatch):
    counts, run_parts = [], harness.run_parts

    def counted(parts, folder, *, workers, **options):
        counts.append(workers)
        return run_parts(parts, folder, workers=workers, **options)

    monkeypatch.setattr(harness, "run_parts", counted)
    monkeypatch.setattr(harness.jax, "default_backend", lambda: backend)
    go(replace(toy([], []), missing=None), tmp_path / "out", workers=given)
    assert counts == [used]


def test_an_experiment_that_measures_time_has_one_worker(tmp_path):
    with pytest.raises(ValueError, match="workers: got 2, and toy measures time, one part at a time; leave it out"):
        go(replace(toy([], []), alone=True), tmp_path / "out", workers=2)
    assert not (tmp_path / "out").exists()
