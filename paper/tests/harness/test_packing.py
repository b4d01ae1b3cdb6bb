"""Archives of experiments: small, and enough to continue elsewhere."""

import tarfile

import numpy as np
import pytest
from factorax_paper.harness.packing import pack, without_training

from factorax.learning import FactoredPPO
from factorax.learning.config import Config
from factorax.runs import read_metrics, train

SMALL = {"n_envs": 4, "n_steps": 8, "batch_size": 32, "n_epochs": 1, "hidden": (8,)}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """The folder of an experiment with a finished run and one that is not."""
    folder = tmp_path_factory.mktemp("packing") / "out"
    for name, steps in (("done-0", 64 * 32), ("begun-0", 32)):
        train("contextual-bandit:3", Config(total_timesteps=steps, **SMALL), folder / "runs" / name, progress_bar=False)
    (folder / "runs" / "done-0" / "evaluation.json").write_text("{}")
    (folder / "parts").mkdir()
    for path in ("config.json", "data.csv", "parts/000.npz", "parts/001.partial.npz", "runs/done-0.log"):
        (folder / path).write_text("something")
    return folder


def test_what_is_needed_to_continue_is_packed(experiment, tmp_path):
    assert pack(experiment, tmp_path / "a.tar.gz") == 1
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    files = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    run = {f"runs/done-0/{name}" for name in ("config.json", "evaluation.json", "metrics.jsonl")}
    assert files == {"config.json", "data.csv", "parts/000.npz", "runs/done-0/checkpoints/last.safetensors"} | run
    old, new = (read_metrics(folder / "runs" / "done-0") for folder in (experiment, tmp_path / "out"))
    assert len(old) == len(new) == 64  # few enough
    assert {row["time/total_timesteps"]: row["rollout/ep_rew_mean"] for row in old} == {
        row["time/total_timesteps"]: row["rollout/ep_rew_mean"] for row in new
    }


def test_a_packed_policy_plays_as_before_and_cannot_be_mistaken_for_damaged(experiment, tmp_path):
    pack(experiment, tmp_path / "a.tar.gz")
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    old, new = (FactoredPPO.load(folder / "runs" / "done-0") for folder in (experiment, tmp_path / "out"))
    assert new.num_timesteps == old.num_timesteps
    np.testing.assert_array_equal(new.evaluate(4)["episodes"], old.evaluate(4)["episodes"])


def test_what_only_training_needs_is_zero(experiment):
    whole = (experiment / "runs" / "done-0" / "checkpoints" / "last.safetensors").read_bytes()
    slim = without_training(whole)
    assert len(slim) == len(whole)
    assert without_training(slim) == slim
    assert slim.count(b"\0") > whole.count(b"\0") + 100
