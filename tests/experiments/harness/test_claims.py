"""Claims: verdicts, the table that ships with the library, and those of folders."""

import dataclasses
import json
import shlex
import typing
from pathlib import Path

import pytest
import tyro

from factorax import experiments
from factorax.experiments.harness.claims import Claim, Verdict, above, collected, published, verdict
from factorax.runs.statistics import Interval

ROOT = Path(__file__).parents[3]
VERDICTS = typing.get_args(Verdict)
ROW = Claim("FPG is stable.", "Sec. 5.1", "curves only", "0.1 [0.05, 0.2]", "holds", command="factorax claims")


def is_complete(claim):
    return all(getattr(claim, name).strip() for name in ("claim", "where", "paper", "ours", "command"))


def write(folder, content):
    folder.mkdir()
    (folder / "summary.json").write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return folder


@pytest.mark.parametrize(
    ("tests", "want"),
    [
        ([True], "holds"),
        ([True, True, True], "holds"),
        ([False, True], "holds in part"),
        ([True, False, False], "holds in part"),
        ([False], "does not hold"),
        ([False, False], "does not hold"),
    ],
)
def test_the_verdict(tests, want):
    assert verdict(*tests) == want


def test_every_verdict_can_be_reached():
    assert {verdict(True), verdict(True, False), verdict(False)} == set(VERDICTS)


def test_the_verdict_on_an_interval():
    assert above(Interval(1.0, 0.91, 1.1), 0.9) == "holds"
    assert above(Interval(1.0, 0.89, 1.1), 0.9) == "holds in part"
    assert above(Interval(0.8, 0.7, 0.91), 0.9) == "holds in part"
    assert above(Interval(0.8, 0.7, 0.89), 0.9) == "does not hold"


def test_every_published_claim_is_complete():
    rows = published()
    assert rows
    for row in rows:
        assert is_complete(row), row
        assert row.verdict in VERDICTS
        assert "nan" not in row.ours.split()
    assert len({(row.claim, row.command) for row in rows}) == len(rows)


def parsed(command):
    """The name and the options of a published command, read by the very parser of `factorax`."""
    program, reproduce, *rest = shlex.split(command)
    assert (program, reproduce) == ("factorax", "reproduce")
    options = {}

    def keep(name: tyro.conf.Positional[str], /, *, budget: typing.Literal["quick", "paper"] = "quick", seed: int = 0):
        options.update(name=name, budget=budget, seed=seed)

    tyro.cli(keep, args=rest)
    return options


def of_experiments():
    """Those that an experiment makes; the others have an example for a command."""
    return [row for row in published() if row.command.startswith("factorax ")]


def test_every_published_command_runs_an_experiment_or_an_example():
    for row in published():
        if row not in of_experiments():
            assert (ROOT / shlex.split(row.command)[1]).is_file()
    for row in of_experiments():
        got = parsed(row.command)
        assert got["name"] in experiments.NAMES
        assert got["budget"] in experiments.find(got["name"]).budgets


def test_what_is_published_has_the_paper_s_sizes():
    assert {parsed(row.command)["budget"] for row in of_experiments()} == {"paper"}


def test_every_experiment_has_published_a_claim():
    assert {parsed(row.command)["name"] for row in of_experiments()} >= set(experiments.BANDITS)


def test_claims_of_folders_are_collected_in_order(tmp_path):
    other = dataclasses.replace(ROW, claim="VPG is not.", verdict="holds in part", note="η ≤ 0.1")
    first = write(tmp_path / "a", {"claims": [ROW.as_dict(), other.as_dict()]})
    second = write(tmp_path / "b", {"claims": [other.as_dict()]})
    assert collected([first, second]) == [ROW, other, other]
    assert collected([str(second)]) == [other]
    assert collected([]) == []


def test_a_folder_without_a_summary_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere/summary\.json: no summary"):
        collected([tmp_path / "nowhere"])
    (tmp_path / "a file").write_text("")
    with pytest.raises(OSError, match=r"a file/summary\.json"):
        collected([tmp_path / "a file"])


INCOMPLETE = {key: value for key, value in ROW.as_dict().items() if key != "ours"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"claims": [',
        b"\xff\xfe",
        [],
        {},
        {"claims": None},
        {"claims": "none"},
        {"claims": [INCOMPLETE]},
        {"claims": [ROW.as_dict() | {"colour": "green"}]},
        {"claims": [ROW.as_dict() | {"verdict": "perhaps"}]},
    ],
    ids=str,
)
def test_a_damaged_summary_is_named(content, tmp_path):
    good = write(tmp_path / "good", {"claims": [ROW.as_dict()]})
    with pytest.raises(ValueError, match=r"bad/summary\.json: not a summary"):
        collected([good, write(tmp_path / "bad", content)])
