"""What a report is made from: folders and files are recognised, damage is noted, and everything else is refused."""

import numpy as np
import pytest
from runs.report.run_folders import write_run

from factorax.discovery.result import Discovery
from factorax.runs.report.inputs import DiscoveryInput, RunInput, read_inputs


@pytest.fixture
def discovery(tmp_path):
    path = tmp_path / "found.safetensors"
    p_value = np.array([[1e-4, 0.5], [0.9, 2e-4]])
    Discovery("score", "return", effect=np.eye(2), p_value=p_value, samples=np.full((2, 2), 100)).save(path)
    return path


def test_every_kind_is_recognised_and_a_folder_of_runs_stands_for_them(tmp_path, discovery):
    write_run(tmp_path / "runs" / "a" / "seed-0")
    write_run(tmp_path / "runs" / "a" / "seed-1", seed=1)
    write_run(tmp_path / "runs" / "b")
    sources = read_inputs([tmp_path / "runs", discovery, tmp_path / "runs" / "b"])
    assert [type(source) for source in sources] == [RunInput] * 3 + [DiscoveryInput]
    assert sorted(source.path.name for source in sources[:3]) == ["b", "seed-0", "seed-1"]


def test_other_folders_and_files_are_refused(tmp_path):
    for name, content in {"empty": None, "odd": '{"format": 1}'}.items():
        (tmp_path / name).mkdir()
        if content is not None:
            (tmp_path / name / "config.json").write_text(content)
    (tmp_path / "text.txt").write_text("no")
    for name in ("empty", "missing", "text.txt", "odd"):
        with pytest.raises((ValueError, FileNotFoundError), match=rf"{name}"):
            read_inputs([tmp_path / name])
    with pytest.raises(ValueError, match="what: got an empty list"):
        read_inputs([])


def test_a_run_that_is_still_written_to_is_read_as_far_as_it_is(tmp_path):
    run = write_run(tmp_path / "run", updates=20)
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:5]) + lines[5][:40])
    (source,) = read_inputs([run])
    assert source.curves.updates == 5
    assert source.notes == ("has made 80 of 320 steps: it is still training, or was stopped",)


@pytest.mark.parametrize(
    ("metrics", "note"),
    [(None, "has no metrics yet"), ("[1]}\n", "cannot be read"), ("", "metrics are empty"), ("{}\n", "cannot be read")],
)
def test_missing_and_damaged_metrics_are_noted(tmp_path, metrics, note):
    run = write_run(tmp_path / "run")
    (run / "metrics.jsonl").unlink()
    if metrics is not None:
        (run / "metrics.jsonl").write_text(metrics)
    (source,) = read_inputs([run])
    assert any(note in each for each in source.notes)


def test_scores_versions_and_warnings_are_read_or_left_out(tmp_path):
    run = write_run(tmp_path / "run")
    (run / "evaluation.json").write_text('{"timesteps": 320, "return": 1.0, "episodes": [1.0, 2.0], "sampled": 0.5}')
    (run / "versions.json").write_text('{"jax": "0.9"}')
    (run / "warnings.jsonl").write_text('{"message": "one"}\n{"message": "one"}\nhalf')
    (source,) = read_inputs([run])
    assert source.evaluation == (1.0, 2.0)
    assert source.versions == {"jax": "0.9"}
    assert source.warnings == ("one",)
    (run / "evaluation.json").write_text('{"timesteps": 16, "return": 1.0, "episodes": [1.0, 2.0], "sampled": 0.5}')
    (source,) = read_inputs([run])
    assert source.evaluation == ()  # of an earlier policy
    for name in ("evaluation.json", "versions.json"):
        (run / name).write_text('{"episodes": "x"}' if name == "evaluation.json" else "[")
    (source,) = read_inputs([run])
    assert source.evaluation == ()
    assert source.versions == {}
