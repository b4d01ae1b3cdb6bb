"""Everything a report shows, as data: sections that have nothing to show are empty, and odd runs leave notes."""

import json
import shlex
from urllib.parse import unquote

import numpy as np
import pytest
from runs.report.run_folders import improving, write_run

from factorax.runs.report.contents import collect, escape_texts, group_inputs, reproduction_section, targets_section
from factorax.runs.report.curves import TARGETS, RunCurves
from factorax.runs.report.inputs import read_inputs


def test_seeds_are_one_group_and_methods_are_several(tmp_path):
    for seed in range(3):
        write_run(tmp_path / f"a{seed}", seed=seed)
        write_run(tmp_path / f"b{seed}", seed=seed, method="ppo")
    report = collect([tmp_path], play=False)
    (curves,) = report["curves"]
    chart = report["charts"][curves["chart"]]
    assert {each["name"]: len(each["runs"]) for each in chart["series"]} == {
        "method factored": 3,
        "method ppo": 3,
    }
    assert list(chart["axes"]) == ["steps", "episodes", "seconds"]
    assert report["title"] == "chain:3"
    assert len(report["reproduce"]) == 2
    json.dumps(report, allow_nan=False)


def test_a_run_without_anything_yet_is_a_report_with_a_note(tmp_path):
    run = write_run(tmp_path / "run")
    (run / "metrics.jsonl").unlink()
    report = collect([run], play=False)
    assert report["notes"] == ["run: has no metrics yet: no update was made"]
    assert report["curves"] == []
    assert report["credit"] == []
    assert report["targets"] == []
    assert report["verdicts"][0]["sentences"] == ["Factored PPO on chain:3: no episode has ended yet."]
    assert len(report["networks"]) == 1
    assert len(report["reproduce"]) == 1


def test_runs_that_need_trust_are_shown_without_their_network(tmp_path):
    write_run(tmp_path / "run", problem="os:getcwd")
    report = collect([tmp_path], play=True)
    assert report["networks"] == []
    assert len(report["curves"]) == 1
    assert any("leads to code to be run; if you trust it" in note for note in report["notes"])


def test_numbers_that_are_not_finite_never_reach_the_page(tmp_path):
    rows = [*improving(4)]
    for row in rows:
        row["rollout/ep_targets_mean"][0] = float("nan")
        row["factor/gradient_snr"] = [float("inf")] * 3
    rows[0]["rollout/ep_rew_mean"] = float("-inf")
    report = collect([write_run(tmp_path / "run", metrics=rows)], play=False)
    json.dumps(report, allow_nan=False)
    assert any("not finite" in note for note in report["notes"])


@pytest.mark.parametrize(("text", "shown"), [("a\u202eb", "a\\u202eb"), ("a\x1b[2J", "a\\x1b[2J"), ("ä → b", "ä → b")])
def test_characters_that_do_not_print_are_escaped_everywhere(text, shown):
    assert escape_texts({text: [text, (text, 1, None)]}) == {shown: [shown, [shown, 1, None]]}


def curves(table):
    table = np.asarray(table, float)
    x = np.arange(1, len(table) + 1, dtype=float)
    return RunCurves(steps=x, episodes=x, seconds=x, returns=table.sum(axis=1), vectors={TARGETS: table})


RISING = np.stack([np.linspace(0, 9, 10), np.linspace(5, -4, 10)], axis=1)


def test_changes_are_from_the_first_to_the_last_tenth_and_count_by_their_weights():
    section = targets_section("group", [curves(RISING), curves(RISING + 2)], ("fuel", "time"), np.array([1.0, 2.0]))
    assert section is not None
    first, second = section["changes"]
    assert (first["name"], first["first"], first["last"], first["change"], first["gain"]) == ("fuel", 1, 10, 9, 9)
    assert (second["name"], second["weight"], second["change"], second["gain"]) == ("time", 2, -9, -18)
    np.testing.assert_allclose(section["series"][0]["y"], RISING[:, 0] + 1)


def test_gaps_are_left_out():
    table = RISING.copy()
    table[0] = np.nan
    section = targets_section("group", [curves(table)], ("a", "b"), None)
    assert section is not None
    assert section["series"][0]["y"][0] is None
    assert section["changes"][0]["first"] == 1.0


def test_one_target_and_no_metrics_show_nothing():
    assert targets_section("group", [curves(RISING[:, :1])], ("a",), None) is None
    assert targets_section("group", [], None, None) is None
    assert targets_section("group", [curves(np.full((3, 2), np.nan))], ("a", "b"), None) is None


def reproduction(folder, relative_to=None):
    (group,) = group_inputs(read_inputs([folder]))
    return reproduction_section(group, relative_to=relative_to)


def test_commands_run_again_and_continue(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path / f"{seed}", seed=seed, gamma=0.9, network="complete")
    told = reproduction(tmp_path)
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
    (file,) = reproduction(tmp_path / "runs", relative_to=tmp_path / "out")["checkpoints"]
    assert (tmp_path / "out" / unquote(file["href"])).resolve() == (
        folder / "checkpoints" / "last.safetensors"
    ).resolve()
    assert "#" not in file["href"]
    assert "?" not in file["href"]
    (file,) = reproduction(tmp_path / "runs")["checkpoints"]
    assert file["href"] == ""
