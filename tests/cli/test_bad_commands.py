"""Bad commands end with code 2 and one error that names the argument, and nothing is written."""

import json
import shlex

import pytest

from factorax.ppo import Config
from factorax.runs.folder import LOCK

pytestmark = pytest.mark.usefixtures("surroundings")

BAD = {
    # the command itself
    "": "command: got none, want train",
    "trian chain:2": "did you mean train?",
    "train chain:2 --lernin-rate 1": "--learning-rate",
    "train chain:2 chain:4": "chain:4",
    "train": "problem",
    # text that has another type
    "train chain:2 --n-envs many": "--n-envs",
    "train chain:2 --method vanila": "method: got 'vanila'",
    "train chain:2 --hidden 64,64": "--hidden",
    "train chain:2 --gamma": "--gamma",
    # values out of range
    "train chain:2 --gamma 1.01": "gamma: got 1.01",
    "train chain:2 --batch-size 7": "batch_size: got 7",
    "train chain:2 --seeds 0": "seeds: got 0",
    "train chain:2 --device cpu,count=99": "count",
    "evaluate ../given/run --episodes 0": "episodes: got 0",
    "discover chain:2 --fdr 1": "fdr: got 1.0",
    "discover chain:2 --method gated --threshold nan": "threshold: got nan",
    # names that do not exist
    "train chian": "did you mean chain?",
    "train os:getcwd": "problem: got 'os:getcwd'",
    "train chain:2 --network complet": "did you mean complete?",
    "train chain:2 --method coma2": "did you mean 'coma'?",
    "evaluate nowhere": "nowhere: no config.json",
    "plot nowhere": "nowhere: no config.json",
    "report nowhere": "what: no 'nowhere'",
    "discover chain:2 --run nowhere": "no file 'nowhere'",
    "evaluate ../given/damaged": "../given/damaged/config.json: damaged",
    "evaluate ../given/run": "no checkpoint in '../given/run'",
    "plot": "folders: got an empty list",
    # files that cannot be written
    "train chain:2 --out ''": "out: got ''",
    "train chain:2 --out ../given/file": "out: got '../given/file'",
    "train chain:2 --out ../given/file/x": "out: got '../given/file/x'",
    "train chain:2 --out ../given/full": "out: '../given/full' contains files",
    "train chain:2 --out ../given/run": "out: '../given/run' contains a run with other settings",
    "plot ../given/run --out curves.gif": "out: got 'curves.gif'",
    "report ../given/run --out ../given/folder.html": "out: got '../given/folder.html', which is a folder",
    "discover chain:2 --out found.json": "out: got 'found.json'",
    "discover chain:2 --network nowhere/K.json": "network: got 'nowhere/K.json'",
    "discover chain:2 --draw found.bmp": "draw: got 'found.bmp'",
    # options that do not go together
    "train chain:2 --networks own own": "networks: got 'own' more than once",
    "train chain:2 --seeds 2 --tensorboard": "tensorboard: got --tensorboard",
    "train CartPole-v1 --seeds 2": "seeds: 'CartPole-v1'",
    "discover chain:2 --samples 100": "samples: no such option of method='interventional'",
    "discover chain:2 --threshold 0.1": "threshold: got 0.1",
    "compare ../given/run ../given/run": "more than once",
}
"""Commands, each with a text of its error. They run in an empty folder next to `given`."""


@pytest.fixture(scope="module")
def top(tmp_path_factory):
    """An empty folder, and next to it what commands may name: files, a run that ended early, and a damaged one."""
    top = tmp_path_factory.mktemp("commands")
    (top / "empty").mkdir()
    for name in ("full", "folder.html", "run", "damaged"):
        (top / "given" / name).mkdir(parents=True)
    (top / "given" / "file").write_text("a file")
    (top / "given" / "full" / "thesis.tex").write_text("important")
    (top / "given" / "damaged" / "config.json").write_text("{")
    settings = Config(gamma=0.5).to_json()
    config = {"format": 1, "problem": "chain:2", "network": "own", "config": settings}
    (top / "given" / "run" / "config.json").write_text(json.dumps(config))
    (top / "given" / "run" / "metrics.jsonl").write_text('{"time/total_timesteps": 8, "rollout/ep_rew_mean": 1.0}\n')
    return top


def contents(folder):
    """All files but the lock of the run, which is held while its settings are compared."""
    paths = (path for path in sorted(folder.rglob("*")) if path.name != LOCK)
    return {path: path.read_bytes() if path.is_file() else None for path in paths}


@pytest.mark.parametrize(("line", "words"), BAD.items(), ids=BAD)
def test_a_bad_command_is_refused(line, words, factorax, top, monkeypatch):
    monkeypatch.chdir(top / "empty")
    before = contents(top)
    code, output, error = factorax(*shlex.split(line))
    assert code == 2
    assert any(words in row for row in error.splitlines()), error
    assert "Traceback" not in error
    assert output == "" or output.startswith("using the preset ")
    assert contents(top) == before


@pytest.mark.parametrize(("option", "package"), [("--wandb", "wandb"), ("--tensorboard", "tensorboardX")])
def test_a_logger_whose_package_is_missing_is_refused(option, package, factorax, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, package, None)
    code, _, error = factorax("train", "chain:2", option)
    assert code == 2
    assert f"needs the package {package}" in error
    assert not list(tmp_path.iterdir())


def test_an_error_of_the_parser_is_printed_once(factorax):
    code, _, error = factorax("train", "chain:2", "--seeds", "two")
    assert code == 2
    assert error.count("invalid literal") == 1
