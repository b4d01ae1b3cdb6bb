"""Bad commands, a table of them: one line that says what is wrong, exit code 2, and nothing on disk."""

import json
import re
import shlex

import pytest
from cli.bad_commands import BAD

from factorax import InfluenceNetwork
from factorax.cli import commands
from factorax.cli.arguments import options_of
from factorax.learning import Config
from factorax.runs.lock import LOCK

pytestmark = pytest.mark.usefixtures("surroundings")


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """An empty folder, and next to it what commands may name: files, runs that ended early, and damaged ones."""
    top = tmp_path_factory.mktemp("commands")
    (top / "empty").mkdir()
    folder = top / "given"
    for name in ("full", "folder.gif", "run", "damaged"):
        (folder / name).mkdir(parents=True)
    (folder / "file").write_text("a file")
    (folder / "full" / "thesis.tex").write_text("important")
    for name in ("config.json", "summary.json"):
        (folder / "damaged" / name).write_text("{")
    settings = json.loads(json.dumps(vars(Config(gamma=0.5))))
    config = {"format": 1, "problem": "chain:2", "network": "own", "config": settings}
    (folder / "run" / "config.json").write_text(json.dumps(config))
    (folder / "run" / "metrics.jsonl").write_text('{"time/total_timesteps": 8, "rollout/ep_rew_mean": 1.0}\n')
    InfluenceNetwork.identity(7).save(folder / "K.json")
    return top


def contents(folder):
    """All files but the lock of the run, which is held while its settings are compared."""
    paths = (path for path in sorted(folder.rglob("*")) if path != folder / "given" / "run" / LOCK)
    return {path: path.read_bytes() if path.is_file() else None for path in paths}


@pytest.mark.parametrize("row", BAD, ids=[f"{row[0]:.60}" for row in BAD])
def test_a_bad_command_is_refused_in_one_line(row, factorax, given, monkeypatch):
    monkeypatch.chdir(given / "empty")
    before, (line, *words) = contents(given), row
    code, output, error = factorax(*shlex.split(line))
    assert error.startswith("factorax: ")
    assert "Traceback" not in error
    assert error.count("\n") == 1 or "contains a run with other settings" in error
    normal = error.replace("_", "-")
    assert [word for word in words if word.replace("_", "-") not in normal] == [], error
    assert code == 2
    assert output == "" or output.startswith("using the preset ")
    assert contents(given) == before


def test_every_option_of_every_command_has_a_bad_command():
    lines = [line.replace("_", "-") for line, *_ in BAD]
    assert len(lines) == len(set(lines)) >= 200
    for name, command in commands().items():
        own = [line for line in lines if line == name or line.startswith(f"{name} ")]
        for option in options_of(command):
            if not option.is_positional:
                assert any(re.search(rf"{option.flag}\b", line) for line in own), f"no row for {name} {option.flag}"


def test_the_options_that_are_checked_are_those_of_the_parser(factorax, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    for name, command in commands().items():
        shown = factorax(name, "--help")[1]
        flags = set(re.findall(r"^[│ ] (--[a-z][a-z-]*)", shown, flags=re.MULTILINE))
        assert flags == {option.flag for option in options_of(command) if not option.is_positional}
