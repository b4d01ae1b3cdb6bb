"""Presets of traffic: valid, with networks that exist, and the defaults of the problems that they name."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from factorax_traffic import plugin

from factorax import runs
from factorax.ppo import Config, find_network
from factorax.ppo.presets import network_of, preset_for, read_preset, settings_with
from factorax.problems import find_problem

NAMES = sorted(path.stem for path in Path(plugin.__file__).with_name("presets").glob("*.toml"))


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_is_valid_and_says_the_command_of_its_result(name):
    preset = read_preset(name)
    assert "factorax" in preset.about
    for setting, value in preset.settings.items():
        assert str(getattr(preset.config, setting)) == str(value)
        assert str(getattr(Config(), setting)) != str(value), "says what is the default anyway"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "resco"])
def test_the_network_of_a_preset_exists(name):
    problem = find_problem("traffic:3x3")
    network = find_network(problem, read_preset(name).network or "own") or problem.network
    assert network.static.targets == problem.network.static.targets


@pytest.mark.parametrize(
    ("problem", "name"),
    [
        ("traffic", "traffic"),
        ("traffic:2x6,slots=20", "traffic"),
        ("sumo:3x3", "traffic"),
        ("resco:cologne8", "resco"),
        ("resco:grid4x4,interval=5", "resco"),
        ("sumo:town.net.xml,town.rou.xml", None),  # nobody has tuned for this one
    ],
)
def test_default_preset_of_a_problem(problem, name):
    preset = preset_for(problem)
    assert (preset and preset.name) == name


def test_the_network_of_a_method_and_a_preset():
    assert network_of("traffic", Config().method) == "incident"
    assert network_of("traffic", Config(method="coma").method) == "complete"


@pytest.fixture
def trained(monkeypatch):
    """What `runs.train` was called with; nothing is trained."""
    calls = []

    def train(problem, config, out, **options):
        calls.append((problem, config, Path(out), options["network"]))
        raise OSError("no more for now")

    monkeypatch.setattr(runs, "train", train, raising=False)
    return calls


@pytest.mark.usefixtures("surroundings")
@pytest.mark.parametrize(
    ("arguments", "preset", "network", "folder"),
    [
        (["traffic:3x3"], "traffic", "incident", "traffic-3x3-factored-incident-0"),
        (["chain:2", "--preset", "traffic"], "traffic", "incident", "chain-2-factored-incident-traffic-0"),
        (
            ["traffic:3x3", "--preset", "traffic-full"],
            "traffic-full",
            "incident",
            "traffic-3x3-factored-incident-traffic-full-0",
        ),
        (["traffic:3x3", "--network", "own"], "traffic", "own", "traffic-3x3-factored-0"),
    ],
)
def test_train_uses_the_preset_and_its_network(arguments, preset, network, folder, factorax, trained):
    factorax("train", *arguments)
    assert trained == [(arguments[0], Config(**settings_with(preset, {"seed": 0})), Path("runs") / folder, network)]


@pytest.mark.nightly
@pytest.mark.usefixtures("surroundings")
def test_lights_with_their_preset_beat_the_best_controller(factorax):
    """Two seeds of the README's command, with room: gap-out is at −153.9 ± 1.6 (standard error of ten episodes)."""
    code, _, err = factorax("train", "traffic:3x3", "--seeds", 2)
    assert (code, err) == (0, "")
    for seed in range(2):
        sim = ["--sim", "sumo"] if find_spec("libsumo") else []
        code, out, _ = factorax("evaluate", f"runs/traffic-3x3-factored-incident-{seed}", "--json", *sim)
        assert code == 0
        assert json.loads(out)["return"] > -145
