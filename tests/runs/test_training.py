"""What training writes into the folder of a run: metrics, versions and device, and warnings, each once."""

import json
import os
import warnings

import numpy as np
import pytest

from factorax import InfluenceNetwork, runs
from factorax._files import write_whole
from factorax.ppo import Config, FactoredPPO
from factorax.runs.folder import WARNINGS, read_versions, read_warnings
from factorax.runs.training import Recorder, disk_errors, record_warnings, versions


def test_versions_are_written_and_read(tmp_path):
    runs.train("contextual-bandit:2", Config(total_timesteps=4, n_envs=1, n_steps=4, batch_size=4), tmp_path / "run")
    assert read_versions(tmp_path / "run") == versions()
    assert {"factorax", "jax", "numpy", "python", "device"} == versions().keys()


def test_edges_that_came_and_went_are_written_by_name(tmp_path):
    model = FactoredPPO("contextual-bandit:2", InfluenceNetwork.identity(2))
    recorder = Recorder(tmp_path, model, has_last=False)
    for step, changed in enumerate(([[1, 0], [0, -1]], np.zeros((2, 2)))):
        recorder.write({"time/total_timesteps": step, "network/changed": np.array(changed)})
    first, second = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    assert first == {"time/total_timesteps": 0, "network/came": ["a1 → psi1"], "network/went": ["a2 → psi2"]}
    assert second == {"time/total_timesteps": 1}


def recorded(folder, *messages, before=(), category=UserWarning):
    """Warn while a record is kept in the folder; returns what was shown."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with record_warnings() as write_to:
            for message in before:
                warnings.warn(message, category, stacklevel=1)
            write_to([folder])
            for message in messages:
                warnings.warn(message, category, stacklevel=1)
    return [str(each.message) for each in shown]


def test_warnings_before_and_after_the_folder_is_known_are_written_once_and_shown(tmp_path):
    assert recorded(tmp_path, "after", "after", before=["before"]) == ["before", "after", "after"]
    assert read_warnings(tmp_path) == ["before", "after"]
    lines = (tmp_path / WARNINGS).read_text().splitlines()
    assert [json.loads(line)["category"] for line in lines] == ["UserWarning"] * 2


def test_a_resumed_run_keeps_its_warnings(tmp_path):
    for _ in range(2):
        recorded(tmp_path, "again")
    assert (tmp_path / WARNINGS).read_text().count("again") == 1


def test_a_folder_keeps_so_many_warnings_and_a_cut_line_is_skipped(tmp_path):
    recorded(tmp_path, *(f"number {k}" for k in range(200)))
    assert len(read_warnings(tmp_path)) == 100
    with (tmp_path / WARNINGS).open("a") as file:
        file.write('{"message": "cut o')
    assert len(read_warnings(tmp_path)) == 100
    assert read_warnings(tmp_path / "missing") == []


def test_line_separators_of_unicode_in_a_warning_do_not_cut_it(tmp_path):
    recorded(tmp_path, "a\u2028b\u2029c\x85d")
    assert read_warnings(tmp_path) == ["a\u2028b\u2029c\x85d"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_place_of_the_warnings_does_not_stop_training(tmp_path):
    os.mkfifo(tmp_path / WARNINGS)
    assert recorded(tmp_path, "lost") == ["lost"]


def test_a_folder_that_cannot_be_written_does_not_stop_training(tmp_path):
    assert recorded(tmp_path / "no" / "folder", "lost") == ["lost"]


def test_the_reason_of_a_failed_write_is_in_the_message(tmp_path):
    with (
        pytest.raises(OSError, match=r"no folder.*the checkpoint of step 80 is intact") as error,
        disk_errors(tmp_path, 80),
    ):
        write_whole(tmp_path / "checkpoints" / "new.safetensors", lambda file: None)
    assert "None" not in str(error.value)
    with (
        pytest.raises(FileNotFoundError, match="moved or deleted") as error,
        disk_errors(tmp_path / "run", 80),
    ):
        write_whole(tmp_path / "run" / "metrics.jsonl", lambda file: None)
    assert "intact" not in str(error.value)
