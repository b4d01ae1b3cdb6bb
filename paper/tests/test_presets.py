"""Presets of the paper: valid, with networks that exist."""

from pathlib import Path

import pytest
from factorax_paper import plugin

from factorax.ppo import Config, find_network
from factorax.ppo.presets import preset_for, read_preset
from factorax.problems import find_problem

NAMES = sorted(path.stem for path in Path(plugin.__file__).with_name("presets").glob("*.toml"))


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_is_valid_and_its_network_exists(name):
    preset = read_preset(name)
    assert "factorax" in preset.about
    for setting, value in preset.settings.items():
        assert str(getattr(Config(), setting)) != str(value), "says what is the default anyway"
    problem = find_problem("market:2" if name == "market" else "traffic:2x6,action=gaussian")
    network = find_network(problem, preset.network or "own") or problem.network
    assert network.static.targets == problem.network.static.targets


def test_the_market_has_a_preset():
    assert preset_for("market:10").name == "market"
