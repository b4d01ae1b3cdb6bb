"""What a folder says of how a run was made: versions, device, and warnings, each once."""

import json
import os
import warnings

import pytest

from factorax.runs.provenance import (
    WARNINGS,
    WarningRecord,
    read_made_with,
    read_warnings,
    versions,
    write_made_with,
)


def test_versions_are_written_and_read(tmp_path):
    write_made_with(tmp_path)
    assert read_made_with(tmp_path) == versions()
    assert {"factorax", "jax", "numpy", "python", "device"} == versions().keys()


def recorded(folder, *messages, before=(), category=UserWarning):
    """Warn while a record is kept in the folder; returns what was shown."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with WarningRecord() as record:
            for message in before:
                warnings.warn(message, category, stacklevel=1)
            record.write_to([folder])
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
