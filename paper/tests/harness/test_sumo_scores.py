"""Scores in SUMO that are measured after training: which are missing, and where they go."""

import json

import numpy as np
import pytest
from factorax_paper.harness import sumo_scores
from factorax_paper.harness.parts import Progress
from factorax_paper.harness.sumo_scores import missing_scores
from factorax_paper.harness.trainings import train

PLAN = [train("near", "traffic:2x2", seed=3, steps=64, seeds=2), train("far", "traffic:2x2", seed=3, steps=64, seeds=2)]
CONTROLLERS = {"2x2, gap-out": "gap-out traffic:2x2"}


def table(**scores):
    """Two points of the curve of every seed, and two episodes of a controller; no score in SUMO unless given."""
    rows = [("near", seed, np.nan) for seed in (3, 3, 4, 4)] + [("far", seed, np.nan) for seed in (3, 3, 4, 4)]
    rows += [("2x2, gap-out", episode, np.nan) for episode in (0, 1)]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    made = dict(zip(("method", "seed", "sumo"), columns, strict=True))
    for method, score in scores.items():
        made["sumo"][made["method"] == method] = score
    return made


@pytest.fixture
def out(tmp_path, monkeypatch):
    """The folder of an experiment with final policies, on a machine with SUMO."""
    monkeypatch.setattr(sumo_scores, "find_spec", lambda name: name)
    for training in PLAN:
        for folder in training.folders(tmp_path / "runs" / training.name):
            (folder / "checkpoints").mkdir(parents=True)
            (folder / "checkpoints" / "last.safetensors").touch()
    return tmp_path


def names(parts):
    return [part.name.removesuffix(" in SUMO") for part in parts]


def test_what_has_no_score_gets_one(out):
    assert names(missing_scores(table(), PLAN, CONTROLLERS, out=out, episodes=2)) == ["near-3", "far-3", "2x2-gap-out"]
    assert names(missing_scores(table(near=-1.0), PLAN, CONTROLLERS, out=out, episodes=2)) == ["far-3", "2x2-gap-out"]


def test_runs_that_are_not_here_are_left_out(out):
    (out / "runs" / "near-3" / "seed-3" / "checkpoints" / "last.safetensors").unlink()
    near, _, _ = missing_scores(table(), PLAN, CONTROLLERS, out=out, episodes=2)
    assert near.cost == 2  # the episodes of one policy
    for name in ("seed-3", "seed-4"):
        (out / "runs" / "far-3" / name / "checkpoints" / "last.safetensors").unlink()
    assert names(missing_scores(table(), PLAN, {}, out=out, episodes=2)) == ["near-3"]


def test_without_sumo_nothing_is_scored(out, monkeypatch):
    monkeypatch.setattr(sumo_scores, "find_spec", lambda name: None)
    assert missing_scores(table(), PLAN, CONTROLLERS, out=out, episodes=2) == []


def test_means_go_to_all_rows_of_a_seed_and_episodes_to_their_own(out, monkeypatch):
    def run_process(log, command, progress, done, variables):
        players = command[4:]
        assert command[3] == "2"
        assert variables == {"JAX_PLATFORMS": "cpu"}
        lines = [json.dumps([-10.0 * i, -10.0 * i - 2]) for i in range(1, len(players) + 1)]
        log.write_text("a warning of some library\n" + "\n".join(lines))
        progress.tick(done())

    monkeypatch.setattr(sumo_scores, "run_process", run_process)
    rows, ticks = table(), []
    for part in missing_scores(rows, PLAN, CONTROLLERS, out=out, episodes=2):
        result = part.compute(Progress(out / "000.partial.npz", ticks.append))
        rows["sumo"][result["rows"]] = result["sumo"]
    assert rows["sumo"].tolist() == [-11, -11, -21, -21] * 2 + [-10, -12]
    assert ticks == [1.0] * 3


@pytest.mark.sumo
@pytest.mark.slow
def test_a_controller_and_a_run_are_played_in_sumo(tmp_path):
    pytest.importorskip("libsumo")
    from factorax.ppo.config import Config
    from factorax.runs import train as train_run

    config = Config(total_timesteps=16, n_envs=2, n_steps=8, batch_size=16, n_epochs=1, hidden=(8,), policy="shared")
    train_run("traffic:2x2", config, tmp_path / "a run", progress_bar=False)
    for player in (str(tmp_path / "a run"), "gap-out traffic:2x2"):
        (score,) = sumo_scores.returns_in_sumo(player, 1)
        assert -2000 < score < 0
