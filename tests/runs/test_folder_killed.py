"""Runs whose driver is killed at random moments, or whose disk is full: what is there is whole, and goes on."""

import contextlib
import dataclasses
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from factorax import _files, runs
from factorax.ppo import Config

KILLING = Path(__file__).parent / "killing.py"


@pytest.mark.slow
@pytest.mark.parametrize("kills", [20, pytest.param(50, marks=pytest.mark.nightly)])
def test_a_run_killed_at_random_moments_resumes_bit_for_bit(tmp_path, kills):
    settings = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    command = [sys.executable, str(KILLING), str(tmp_path), str(kills), "0"]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    deaths = [json.loads(line) for line in done.stdout.splitlines()]
    out, undisturbed = tmp_path / "killed", tmp_path / "whole"
    assert len(deaths) == kills
    assert all(death["whole"] for death in deaths)
    steps = [max(death["whole"]) for death in deaths]
    assert steps == sorted(steps)  # nothing that was learnt is lost
    assert steps[0] < steps[-1]
    got, want = (load_file(path / "checkpoints" / "last.safetensors") for path in (out, undisturbed))
    assert want[".timesteps"] == 6000
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name, strict=True)
    assert [row["train/loss"] for row in runs.read_metrics(out)] == [
        row["train/loss"] for row in runs.read_metrics(undisturbed)
    ]
    assert sorted(p.name for p in (out / "checkpoints").iterdir()) == ["last.safetensors", "previous.safetensors"]


CONFIG = Config(total_timesteps=80, n_envs=4, n_steps=10, batch_size=20, n_epochs=1, hidden=(8,))


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A folder, a function that leaves no room in it, and one that makes some; if need be, they pretend."""
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", tmp_path], capture_output=True)
    if mounted.returncode:

        def fail(path, write):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        yield tmp_path, lambda: monkeypatch.setattr("factorax.ppo.checkpoints.write_whole", fail), monkeypatch.undo
        return
    filler = tmp_path / "filler"

    def fill():
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))

    yield tmp_path, fill, filler.unlink
    subprocess.run(["umount", tmp_path], check=True)


@pytest.mark.slow
def test_a_full_disk_stops_the_run_with_a_sentence_and_keeps_the_last_checkpoint(disk):
    folder, fill, free = disk
    out = folder / "run"
    out.mkdir()
    (out / ".config.json.x1y2z3").write_text("{")  # of a process that was killed here before
    runs.train("chain:3", CONFIG, out, progress_bar=False)
    files = [".lock", "checkpoints", "config.json", "metrics.jsonl", "versions.json"]
    assert sorted(p.name for p in out.iterdir()) == files
    before = load_file(out / "checkpoints" / "last.safetensors")
    longer = dataclasses.replace(CONFIG, total_timesteps=160)
    fill()
    message = (
        r"out: cannot write to '.*run' \(No space left on device\); the checkpoint of step 80 is intact\. Free some "
        r"space"
    )
    with pytest.raises(OSError, match=message):
        runs.train("chain:3", longer, out, progress_bar=False)
    after = load_file(out / "checkpoints" / "last.safetensors")
    assert all(np.array_equal(before[name], after[name]) for name in before)
    free()
    assert runs.train("chain:3", longer, out, progress_bar=False).num_timesteps == 160
    assert len(runs.read_metrics(out)) == 4


def test_temporary_files_of_killed_writes_are_removed(tmp_path):
    (tmp_path / ".new.safetensors.abc").write_bytes(b"half")
    (tmp_path / "last.safetensors").write_bytes(b"whole")
    _files.remove_leftovers(tmp_path, "new.safetensors", "nothing")
    assert [p.name for p in tmp_path.iterdir()] == ["last.safetensors"]
