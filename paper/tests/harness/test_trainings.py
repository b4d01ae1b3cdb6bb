"""Experiments that train: runs as processes, their curves as tables, and what is said of them."""

import threading

import numpy as np
import pytest
from curves_of_runs import rising_curves
from factorax_paper.harness import trainings
from factorax_paper.harness.parts import Progress, Stopped
from factorax_paper.harness.trainings import train

SMALL = ("--n-envs", 4, "--n-steps", 8, "--batch-size", 32, "--n-epochs", 1, "--hidden", 8)


def part(*plan):
    return trainings.trainings(lambda settings, seed: plan)(None, 0)


@pytest.mark.slow
def test_a_run_is_a_process_that_leaves_a_folder(tmp_path):
    (tmp_path / "parts").mkdir()
    (one,) = part(train("all edges", "contextual-bandit:3", *SMALL, "--network", "complete", seed=5, steps=64))
    ticks = []
    result = one.compute(Progress(tmp_path / "parts" / "000.partial.npz", ticks.append))
    assert result["steps"].tolist() == [[32, 64]]
    assert np.isfinite(result["returns"]).all()
    assert np.isfinite(result["final"]).all()
    assert np.isfinite(result["sampled"]).all()
    assert np.isnan(result["variance_ratio"]).all()  # nobody asked for it
    assert (tmp_path / "runs" / "all-edges-5" / "checkpoints" / "last.safetensors").exists()
    assert ticks == sorted(ticks)


@pytest.mark.slow
def test_seeds_side_by_side_are_one_process(tmp_path):
    (tmp_path / "parts").mkdir()
    (one,) = part(train("factored", "contextual-bandit:3", *SMALL, seed=5, steps=64, seeds=2))
    result = one.compute(Progress(tmp_path / "parts" / "000.partial.npz"))
    assert result["returns"].shape == (2, 2)
    assert result["final"].shape == (2,)
    assert (result["returns"][0] != result["returns"][1]).any()
    assert sorted(p.name for p in (tmp_path / "runs" / "factored-5").iterdir()) == ["seed-5", "seed-6"]
    rows = trainings.curves([train("factored", "contextual-bandit:3", seed=5, steps=64, seeds=2)], [result])
    assert rows["seed"].tolist() == [5, 5, 6, 6]


@pytest.mark.slow
def test_a_run_that_fails_says_where_to_look(tmp_path):
    (tmp_path / "parts").mkdir()
    (one,) = part(train("factored", "no-such-problem", seed=0, steps=64))
    with pytest.raises(RuntimeError, match=r"factored-0: ended with code 2; .*factored-0.log says why"):
        one.compute(Progress(tmp_path / "parts" / "000.partial.npz"))
    assert "problem: got 'no-such-problem'" in (tmp_path / "runs" / "factored-0.log").read_text()


def test_a_run_is_stopped_when_asked(tmp_path):
    (tmp_path / "parts").mkdir()
    (one,) = part(train("factored", "chain:3", *SMALL, seed=0, steps=10**9))
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        one.compute(Progress(tmp_path / "parts" / "000.partial.npz", stop=stop))


def test_curves_are_means_between_points():
    rows = rising_curves(a=-10.0)
    assert len(rows["steps"]) == 60
    assert rows["steps"][:3].tolist() == [20, 40, 60]
    np.testing.assert_allclose(rows["return"][0], -100 + 90 / 39 / 2)
    np.testing.assert_allclose(trainings.late(rows, "a"), rows["return"].reshape(3, 20)[:, -2:].mean(axis=1))
    group = trainings.group(rows, "a")
    assert group.returns.shape == (3, 20)


def test_a_summary_says_who_ends_better():
    rows = trainings.summary(rising_curves(a=-10.0, b=-30.0), ("a", "b"))
    assert rows["b"]["better"]["mean"] == 1
    assert rows["a"]["better"]["mean"] == 0.5  # over itself
    assert rows["a"]["training"]["mean"] > rows["b"]["training"]["high"]
    assert rows["a"]["variance_ratio"] == 2
    assert rows["b"]["variance_ratio"] is None  # which JSON can say
