"""A plug-in: a family of problems with a preset, networks, a controller and a film, and a command; and broken ones."""

import json
import sys
from importlib.metadata import EntryPoint

import pytest
from runs.report.run_folders import write_run

from factorax import plugins
from factorax.ppo import METHODS, Config, config
from factorax.ppo.presets import preset_for, presets
from factorax.problems import find_problem
from factorax.runs.report.contents import collect
from factorax.runs.report.page import page

SHOPS = """
from pathlib import Path
import numpy as np
from factorax.plugins import register, register_choice, register_command
from factorax.ppo import Method
from factorax.problems import chain

def plugin():
    register(
        "shops", "shops:problem", example="shops:3", files="shops:reads", presets=Path(__file__).parent / "presets",
        controllers=("greedy",), returns="shops:returns", simulators={"slow": "shops:slow"},
        film="shops:film", player="shops:player", layout="shops:layout",
    )
    register_command("stocktake", "shops:stocktake", "Count what is there.")
    register_choice("method", "patient", "shops:Patient")

class Patient(Method):
    title = "patient PPO"
    def passes(self, config): return 2 * config.n_epochs
def problem(text): return chain(int(text or 3))
def reads(text): return text.endswith(".csv")
def slow(name): return name + "0"
def returns(controller, problem, *, episodes, seed): return np.full(episodes, -5.0)
def film(problem, runs, *, trusted): return {"name": "street", "caption": "Shops.", "film": {"n": len(runs)}}
def player(): return "window.factoraxFilm = () => {};", ".shop { color: red }"
def layout(problem, network): return {"actions": [[0, 0]] * 3, "targets": [[[0, 0], [1, 1]]] * 3}
def stocktake(*, shelves: int = 2) -> None:
    "Count what is there."
    print(f"{shelves} shelves")
"""
PRESET = 'about = "Tuned with factorax."\nproblems = ["shops:*"]\nnetwork = "near"\n[settings]\ngamma = 0.9\n'


@pytest.fixture
def loaded(monkeypatch):
    """A function that installs plug-ins, by entry points; they are gone after the test."""
    monkeypatch.setattr(plugins, "_FAMILIES", dict(plugins.families()))
    monkeypatch.setattr(plugins, "_COMMANDS", dict(plugins.commands()))
    monkeypatch.setattr(plugins, "_CHOICES", dict(plugins.choices()))
    monkeypatch.setattr(METHODS, "kinds", dict(METHODS.kinds))

    def load(*references):
        entries = [EntryPoint(f"p{k}", each, plugins.GROUP) for k, each in enumerate(references)]
        monkeypatch.setattr(plugins, "entry_points", lambda group: entries)
        plugins._load.__wrapped__()

    return load


@pytest.fixture
def shops(loaded, tmp_path, monkeypatch):
    (tmp_path / "shops.py").write_text(SHOPS)
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "shops.toml").write_text(PRESET)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    loaded("shops:plugin")
    config.menus.cache_clear()
    yield
    config.menus.cache_clear()
    sys.modules.pop("shops", None)


@pytest.mark.usefixtures("shops")
def test_a_family_has_problems_presets_and_simulators():
    from factorax.problems.registry import in_simulator, leads_to

    assert find_problem("shops:5").network.shape == (5, 5)
    assert "shops" in presets()
    assert preset_for("shops:3").network == "near"
    assert preset_for("chain:3").name == "chain"
    assert in_simulator("shops:1", "slow") == "shops:10"
    assert (leads_to("shops:3"), leads_to("shops:a.csv")) == ("", "files to be read")


@pytest.mark.usefixtures("shops")
def test_controllers_are_evaluated_by_name(factorax):
    code, out, err = factorax("evaluate", "greedy", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {"problem": "shops:3", "return": -5.0, "error": 0.0, "episodes": [-5.0] * 10}
    code, _, err = factorax("evaluate", "greedy", "--problem", "chain:3")
    assert code == 2
    assert "chain:3" in err


@pytest.mark.usefixtures("shops")
def test_commands_of_plugins_are_commands(factorax):
    assert factorax("stocktake", "--shelves", 3) == (0, "3 shelves\n", "")
    assert "stocktake" in factorax("--help")[1]


@pytest.mark.usefixtures("shops")
def test_choices_of_plugins_are_settings():
    method = Config(method="patient").method
    assert (str(method), method.title, method.passes(Config(n_epochs=3))) == ("patient", "patient PPO", 6)
    with pytest.raises(ValueError, match="name: got 'patient', which is already shops:Patient"):
        plugins.register_choice("method", "patient", "other:Patient")


@pytest.mark.usefixtures("shops")
def test_reports_have_the_film_the_map_and_the_controller(tmp_path):
    run = write_run(tmp_path / "run", problem="shops:3")
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "last.safetensors").touch()
    report = collect([run])
    assert report["networks"][0]["layout"]["actions"] == [[0, 0]] * 3
    assert report["films"] == [{"n": 1}]
    assert "−5 [−5, −5] of the controller greedy" in report["verdicts"][0]["sentences"][0]
    html = page(report)
    assert "window.factoraxFilm = () => {};" in html
    assert ".shop { color: red }" in html
    assert "Shops." in html


def test_a_broken_plugin_is_named_and_the_others_work(loaded, tmp_path, monkeypatch):
    (tmp_path / "fine.py").write_text("import factorax.plugins as p\ndef go(): p.register('fine', 'fine:problem')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(UserWarning, match="plug-in p0: no_such_module:go failed"):
        loaded("no_such_module:go", "fine:go")
    assert "fine" in plugins.families()


def test_what_is_not_installed_is_named_with_its_distribution(monkeypatch, factorax):
    ours = {name: family for name, family in plugins.families().items() if name in ("chain", "queues")}
    monkeypatch.setattr(plugins, "_FAMILIES", ours)
    monkeypatch.setattr(plugins, "_COMMANDS", {})
    with pytest.raises(ValueError, match=r"traffic is part of factorax-traffic, .*: pip install factorax-traffic"):
        find_problem("traffic:3x3")
    code, _, err = factorax("reproduce", "search-rate")
    assert code == 2
    assert "pip install factorax-paper" in err


def test_registering_twice_is_refused_unless_it_is_the_same(loaded):
    plugins.register("mine", "mine:problem")
    plugins.register("mine", "mine:problem")
    with pytest.raises(ValueError, match="prefix: got 'mine', which is already mine:problem"):
        plugins.register("mine", "other:problem")
    with pytest.raises(ValueError, match="film: got 'film'"):
        plugins.register("ours", "mine:problem", film="film")
    plugins.register_command("count", "mine:count", "Count.")
    with pytest.raises(ValueError, match="name: got 'count'"):
        plugins.register_command("count", "other:count", "Count.")
