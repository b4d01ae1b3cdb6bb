"""Run folders from strangers: refused with a ValueError, at once, and no file elsewhere is changed."""

import json
import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from runs import hostile
from small_settings import SMALL

from factorax import InfluenceNetwork, runs
from factorax.ppo import Config, FactoredPPO, checkpoints
from factorax.ppo.model_files import DamagedWarning
from factorax.runs import folder
from factorax.runs.training import open_run

PROBLEM = "contextual-bandit:3"
CONFIG = Config(total_timesteps=24, **SMALL)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """The folder of a run, with two checkpoints of the same step."""
    out = tmp_path_factory.mktemp("good") / "run"
    runs.train(PROBLEM, CONFIG, out, progress_bar=False)
    (out / "metrics.jsonl").write_text('{"time/total_timesteps": 24, "rollout/ep_rew_mean": -1.5}\n')
    return out


@pytest.fixture
def out(good, tmp_path):
    shutil.copytree(good, tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("name", hostile.DAMAGED)
@pytest.mark.filterwarnings("ignore")
def test_damaged_run_folders_are_refused(name, out):
    hostile.DAMAGED[name](out)
    assert hostile.is_refused(out)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is counted as on Linux")
def test_oversized_run_folders_are_refused_without_memory(good, tmp_path):
    """In a process of its own, which counts its memory: 500 MB with all of factorax and JAX, a second for each."""
    command = [sys.executable, hostile.__file__, str(good), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr[-3000:]


VICTIMS = {
    "the lock": (".lock", "file"),
    "settings": ("config.json", "file"),
    "metrics": ("metrics.jsonl", "file"),
    "a score": ("evaluation.json", "file"),
    "a network": ("network.json", "file"),
    "checkpoints": ("checkpoints", "folder"),
    "a checkpoint": ("checkpoints/last.safetensors", "file"),
    "a new checkpoint": ("checkpoints/new.safetensors", "file"),
    "logs": ("logs", "folder"),
    "a log": ("logs/progress.csv", "file"),
}


@pytest.fixture(scope="module")
def model(good):
    return FactoredPPO.load(good)


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("name", VICTIMS)
@pytest.mark.parametrize("exists", [True, False])
def test_training_writes_through_no_symbolic_link(name, exists, forced, out, model, tmp_path):
    """Neither to a file that is there nor to one that would be made; and nothing is written before that is known."""
    path, kind = out / VICTIMS[name][0], VICTIMS[name][1]
    victim = tmp_path / "thesis"
    if exists and kind == "folder":
        victim.mkdir()
        (victim / "chapter").write_text("all of it")
    elif exists:
        shutil.copy(path, victim) if path.exists() else victim.write_text("{}")
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(victim)
    before = snapshot(tmp_path)
    with (
        pytest.raises(FileExistsError, match="is a symbolic link, want a plain file; remove it"),
        open_run(out, model, problem=PROBLEM, config=CONFIG, force=forced),
    ):
        pass
    assert snapshot(tmp_path) == before


def test_a_run_with_the_links_of_weights_and_biases_resumes(out, model, tmp_path):
    """W&B links from its folder to a log in the user's cache; that folder itself must be no link."""
    run = out / "logs" / "wandb" / "offline-run-20260101_000000-abc" / "logs"
    run.mkdir(parents=True)
    (run / "debug-core.log").symlink_to(tmp_path / "cache" / "core.log")
    (out / "logs" / "wandb" / "latest-run").symlink_to(run.parent)
    with open_run(out, model, problem=PROBLEM, config=CONFIG):
        pass
    shutil.move(out / "logs" / "wandb", tmp_path / "elsewhere")
    (out / "logs" / "wandb").symlink_to(tmp_path / "elsewhere")
    with (
        pytest.raises(FileExistsError, match="is a symbolic link"),
        open_run(out, model, problem=PROBLEM, config=CONFIG),
    ):
        pass


def snapshot(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize("name", ["metrics.jsonl", "logs/progress.csv", ".lock", "evaluation.json", "config.json"])
def test_training_leaves_other_hard_links_of_its_files(name, out, tmp_path):
    victim, path = tmp_path / "thesis", out / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    os.link(path, victim)
    before = victim.read_bytes()
    more = Config(**vars(CONFIG) | {"total_timesteps": 48})
    assert runs.train(PROBLEM, more, out, progress_bar=False, loggers=["csv"]).num_timesteps == 48
    assert victim.read_bytes() == before


def test_flipped_bits_of_a_checkpoint_are_detected(out):
    last = out / "checkpoints" / "last.safetensors"
    whole = last.read_bytes()
    rng = np.random.default_rng(0)
    length = 8 + int.from_bytes(whole[:8], "little")
    like = FactoredPPO.load(out).state._replace(hyper=None)
    for at in (*range(0, length, 29), *rng.integers(length, len(whole), 40)):
        data = bytearray(whole)
        data[at] ^= 1 << int(rng.integers(8))
        last.write_bytes(data)
        with pytest.raises(ValueError, match=r"not a factorax checkpoint, or damaged|another version of factorax"):
            checkpoints.load(last, like)
    (out / "checkpoints" / "previous.safetensors").write_bytes(whole)
    with pytest.warns(DamagedWarning, match="continuing from"):
        assert FactoredPPO.load(out).num_timesteps == 24


def test_labels_with_line_separators_of_unicode_do_not_cut_a_row_of_metrics(out, model):
    row = {"time/total_timesteps": 24, "network/came": ["a\u2028 → b\u2029", "\x85"]}
    (out / "metrics.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n")
    with open_run(out, model, problem=PROBLEM, config=CONFIG):  # cuts the metrics
        pass
    assert runs.read_metrics(out) == [row]


def test_metrics_of_holes_are_refused_before_they_take_memory(out):
    os.truncate(out / "metrics.jsonl", 2**30 - 1)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="a line of more than"):
            runs.read_metrics(out)
        assert tracemalloc.get_traced_memory()[1] < 200 * 2**20
    finally:
        tracemalloc.stop()


def test_metrics_have_a_limited_number_of_values_in_memory(out, monkeypatch):
    monkeypatch.setattr(folder, "MAX_VALUES", 1000)
    (out / "metrics.jsonl").write_text('{"time/total_timesteps": 1, "a": [1, 2]}\n' * 80)
    with pytest.raises(ValueError, match="more than 1,000 values"):
        runs.read_metrics(out)
    assert runs.read_metrics(out, lambda name: False) == [{"time/total_timesteps": 1}] * 80


def test_archive_headers_cannot_claim_more_than_their_data(tmp_path):
    """Memory is taken for the shape that the header of an array declares."""
    InfluenceNetwork.identity(3).save(tmp_path / "k.npz")
    with np.load(tmp_path / "k.npz") as archive:
        arrays = dict(archive)
    np.savez(tmp_path / "k.npz", **arrays)
    text = (tmp_path / "k.npz").read_bytes().replace(b"'shape': (4,), }   ", b"'shape': (4444,), }")
    (tmp_path / "k.npz").write_bytes(text)
    with pytest.raises(ValueError, match="damaged"):
        InfluenceNetwork.load(tmp_path / "k.npz")
