"""How to make a run again: commands that give the same settings, marked differences, links that lead to checkpoints."""

import shlex
from urllib.parse import unquote

from runs.report.run_folders import write_run

from factorax.runs.report.collection import grouped
from factorax.runs.report.reproduction import reproduction_section
from factorax.runs.report.sources import read_sources


def section(folder, relative_to=None):
    (group,) = grouped(read_sources([folder]))
    return reproduction_section(group, relative_to=relative_to)


def test_commands_run_again_and_continue(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path / f"{seed}", seed=seed, gamma=0.9, network="complete")
    told = section(tmp_path)
    assert told["seeds"] == [0, 1]
    for command in (*told["again"], told["resume"]):
        assert "--gamma 0.9" in command
        assert "--network complete" in command
    assert "--seed 1" in told["again"][1]
    assert "--total-timesteps 640" in told["resume"]
    assert shlex.split(told["resume"])[-1] == str(tmp_path / "0")
    assert told["resume_note"] == ""


def test_links_lead_from_the_report_to_checkpoints(tmp_path):
    folder = write_run(tmp_path / "runs" / "a b#1?")
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "last.safetensors").write_bytes(b"x")
    (tmp_path / "out").mkdir()
    (file,) = section(tmp_path / "runs", relative_to=tmp_path / "out")["checkpoints"]
    assert (tmp_path / "out" / unquote(file["href"])).resolve() == (
        folder / "checkpoints" / "last.safetensors"
    ).resolve()
    assert "#" not in file["href"]
    assert "?" not in file["href"]
    (file,) = section(tmp_path / "runs")["checkpoints"]
    assert file["href"] == ""
