"""What a run writes: metrics as JSON."""

import numpy as np
import pytest

from factorax import InfluenceNetwork
from factorax._files import write_whole
from factorax.runs import recorder


def test_edges_that_came_and_went_are_written_by_name():
    changed = np.array([[1, 0], [0, -1]])
    assert recorder._changes(changed, InfluenceNetwork.identity(2)) == {
        "network/came": ["a1 → psi1"],
        "network/went": ["a2 → psi2"],
    }
    assert recorder._changes(np.zeros((2, 2)), InfluenceNetwork.identity(2)) == {}


def test_the_reason_of_a_failed_write_is_in_the_message(tmp_path):
    with (
        pytest.raises(OSError, match=r"no folder.*the checkpoint of step 80 is intact") as error,
        recorder.room(tmp_path, 80),
    ):
        write_whole(tmp_path / "checkpoints" / "new.safetensors", lambda file: None)
    assert "None" not in str(error.value)
    with (
        pytest.raises(FileNotFoundError, match="moved or deleted") as error,
        recorder.room(tmp_path / "run", 80),
    ):
        write_whole(tmp_path / "run" / "metrics.jsonl", lambda file: None)
    assert "intact" not in str(error.value)
