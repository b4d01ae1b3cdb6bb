"""Commands on run folders from strangers: names are shown escaped, and those that lead elsewhere need `--problem`."""

import json
import shutil

import pytest
from runs.hostile import DEEP, ESCAPE, MARKUP, config
from small_settings import SMALL

from factorax import InfluenceNetwork, runs
from factorax.ppo import Config

pytestmark = pytest.mark.usefixtures("surroundings")
PROBLEM = "contextual-bandit:3"
CONFIG = Config(total_timesteps=24, **SMALL)
ODD = f"x{MARKUP}{ESCAPE}$\\frac"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run with a network whose targets have odd names, and settings that name an odd problem."""
    folder = tmp_path_factory.mktemp("trained")
    names = [f"{ODD}{i}" for i in range(3)]
    InfluenceNetwork.identity(3).relabel(["a", "b", "c"], names).save(folder / "k.json")
    runs.train(PROBLEM, CONFIG, folder / "run", network=str(folder / "k.json"), progress_bar=False)
    return folder / "run"


@pytest.fixture
def run(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def assert_escaped(text):
    assert "\\x1b[2J\\x9b31m\\u202e" in text
    assert MARKUP in text  # as it stands in the file: markup has done nothing
    assert all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.slow
def test_evaluate_shows_names_of_targets(run, factorax):
    code, out, _ = factorax("evaluate", run, "--episodes", 2)
    assert code == 0
    assert_escaped(out)


@pytest.mark.slow
def test_compare_and_plot_show_names_of_problems(run, factorax, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(run, other)
    config(run, problem=ODD)
    code, out, _ = factorax("compare", run, other)
    assert code == 0
    assert_escaped(out)
    assert factorax("plot", run, other, "--out", "curves.png")[0] == 0  # no mathematics for Matplotlib
    code, out, _ = factorax("compare", run, other, "--json")
    assert out.isascii()
    assert ODD in json.loads(out)["final"]


@pytest.mark.parametrize("entry", ["problem", "network"])
def test_errors_show_names(entry, run, factorax):
    config(run, **{entry: f"x[red]{ESCAPE}"})
    code, _, error = factorax("evaluate", run)
    assert code == 2
    assert "x[red]\\x1b[2J\\x9b31m\\u202e" in error
    assert all(c.isprintable() for c in error.rstrip("\n"))


@pytest.mark.slow
def test_long_names_are_shortened(run, factorax, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(run, other)
    config(run, problem="x" * 200_000)
    for command in ("evaluate", "compare", "plot"):
        folders = [run] if command == "evaluate" else [run, other]
        code, out, error = factorax(command, *folders)
        assert code == (2 if command == "evaluate" else 0)
        assert len(out + error) < 10_000


@pytest.mark.parametrize("problem", ["os:getcwd", "rddl:a.rddl/b.rddl"])
def test_a_name_that_leads_elsewhere_has_to_be_repeated(problem, run, factorax):
    config(run, problem=problem)
    hint = f"if you trust it, confirm with --problem {problem}"
    code, _, error = factorax("evaluate", run)
    assert code == 2
    assert hint in error
    code, _, error = factorax("evaluate", run, "--problem", "chain:3")
    assert hint in error
    code, _, error = factorax("evaluate", run, "--problem", problem)
    assert code == 2  # there is no such file, or it is no problem
    assert hint not in error


@pytest.mark.slow
@pytest.mark.parametrize("score", [DEEP, "[1]", '{"timesteps": 24, "return": "x", "episodes": ["a", "b", "c"]}'])
def test_a_damaged_score_is_computed_again(score, run, factorax):
    (run / "evaluation.json").write_text(score)
    network = json.loads((run / "config.json").read_text())["network"]
    settings = {"preset": "none", "total_timesteps": 24} | SMALL | {"hidden": 8}
    options = [text for name, value in settings.items() for text in (f"--{name.replace('_', '-')}", value)]
    code, out, _ = factorax("train", PROBLEM, *options, "--network", network, "--out", run)
    assert code == 0
    assert "return of 10 episodes" in out
    assert json.loads((run / "evaluation.json").read_text())["timesteps"] == 24
