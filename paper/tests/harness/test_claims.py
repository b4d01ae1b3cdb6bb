"""Claims: verdicts, the table that ships with the library, and those of folders."""

import ast
import dataclasses
import json
import shlex
import typing
from pathlib import Path

import pytest
import tyro
from factorax_paper import experiments
from factorax_paper.harness.claims import (
    HEADINGS,
    MATHEMATICS,
    Claim,
    Verdict,
    above,
    by_source,
    collected,
    published,
    verdict,
)

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
        ([True, True, True], "holds"),
        ([False, True], "holds in part"),
        ([False, False], "does not hold"),
    ],
)
def test_a_verdict_joins_its_tests(tests, want):
    assert verdict(*tests) == want


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

    def keep(
        name: tyro.conf.Positional[str],
        /,
        *,
        budget: typing.Literal["quick", "paper"] = "quick",
        seed: int = 0,
        set_: typing.Annotated[tuple[str, ...], tyro.conf.arg(name="set")] = (),
    ):
        options.update(name=name, budget=budget, seed=seed, set=set_)

    tyro.cli(keep, args=rest)
    return options


def of_experiments():
    """Those that an experiment makes; the others have an example or a test for a command."""
    return [row for row in published() if row.command.startswith("factorax ")]


def test_the_table_comes_apart_into_the_paper_s_statements_and_ours():
    parts = by_source(published())
    assert list(parts) == list(HEADINGS) == ["paper", "ours"]
    assert sum(map(len, parts.values())) == len(published())
    for row in parts["ours"]:
        assert row.where == "not in the paper", row
    for row in parts["paper"]:
        assert row.where != "not in the paper", row
    assert by_source([]) == {"paper": [], "ours": []}
    assert by_source([ROW]) == {"paper": [ROW], "ours": []}


def test_every_published_command_runs_an_experiment_or_an_example_or_a_test():
    for row in published():
        if row not in of_experiments():
            assert (ROOT / shlex.split(row.command)[1]).is_file()
    for row in of_experiments():
        got = parsed(row.command)
        assert got["name"] in experiments.NAMES
        assert got["budget"] in experiments.find(got["name"]).budgets


def named_tests():
    """The test file and the name that each command of the mathematics gives to pytest."""
    commands = [shlex.split(row.command) for row in published() if row.experiment == MATHEMATICS]
    for program, path, option, name in commands:
        assert (program, option) == ("pytest", "-k")
        yield path, name


def test_the_theorems_come_first_and_every_command_names_a_test():
    assert published()[0].experiment == MATHEMATICS
    for path, name in named_tests():
        nodes = ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        names = [node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        assert any(name in each for each in names if each.startswith(("test_", "Test"))), (path, name)


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
        [],
        {"claims": [INCOMPLETE]},
        {"claims": [ROW.as_dict() | {"colour": "green"}]},
        {"claims": [ROW.as_dict() | {"verdict": "perhaps"}]},
        {"claims": [ROW.as_dict() | {"source": "hearsay"}]},
    ],
    ids=str,
)
def test_a_damaged_summary_is_named(content, tmp_path):
    good = write(tmp_path / "good", {"claims": [ROW.as_dict()]})
    with pytest.raises(ValueError, match=r"bad/summary\.json: not a summary"):
        collected([good, write(tmp_path / "bad", content)])
