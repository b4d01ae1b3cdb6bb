"""Presets: every file that is shipped is valid, and one that is not says which entry."""

import dataclasses

import pytest

from factorax.ppo import Config, presets
from factorax.ppo.presets import preset_for, read_preset, settings_with

VALID = """
about = "A sentence."
problems = ["chain:*"]
network = "near"

[settings]
gamma = 0.9
hidden = [8, 8]
"""


@pytest.fixture
def read(tmp_path):
    """From the text of a preset file to the preset."""

    def read(text):
        path = tmp_path / "mine.toml"
        path.write_text(text, encoding="utf-8")
        return presets._read.__wrapped__(path)

    return read


@pytest.mark.parametrize("name", presets.presets())
def test_every_shipped_preset_is_valid(name):
    preset = read_preset(name)
    assert preset.name == name
    assert preset.about.endswith(".")
    assert "factorax" in preset.about  # the command that gives the result
    for setting, value in preset.settings.items():
        assert getattr(preset.config, setting) == value
        assert getattr(Config(), setting) != value, "says what is the default anyway"


def test_no_two_presets_are_the_default_of_one_problem():
    patterns = [pattern for preset in presets.presets().values() for pattern in preset.problems]
    assert len(set(patterns)) == len(patterns)


@pytest.mark.parametrize(
    ("problem", "name"),
    [
        ("chain:8", "chain"),
        ("queues", "queues"),
        ("contextual-bandit:8", "contextual-bandit"),
        ("CartPole-v1", None),
        ("my-chain:5", None),
        ("", None),
    ],
)
def test_default_preset_of_a_problem(problem, name):
    preset = preset_for(problem)
    assert (preset and preset.name) == name


def test_a_file_is_read_and_its_values_have_the_types_of_their_fields(read):
    preset = read(VALID)
    assert preset.problems == ("chain:*",)
    assert preset.network == "near"
    assert preset.settings == {"gamma": 0.9, "hidden": (8, 8)}
    assert preset.config == dataclasses.replace(Config(), gamma=0.9, hidden=(8, 8))
    assert read(VALID.replace('network = "near"', "")).network is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("gamma = 0.9", "gamma = ", r"mine.toml: Invalid value"),
        ("gamma = 0.9", "gamma = 1.5", r"mine.toml: gamma: got 1.5, want a number from 0 to 1"),
        ("gamma = 0.9", "gama = 0.9", r"mine.toml: gama: no such setting; did you mean gamma\?"),
        ("gamma = 0.9", "seed = 1", r"mine.toml: settings.seed: is a setting of a run"),
        ("[settings]", "[setings]", r"mine.toml: setings: unknown entry; did you mean settings\?"),
        ("[settings]\ngamma = 0.9\nhidden = [8, 8]", "settings = 3", r"mine.toml: settings: got 3, want a table"),
        ('about = "A sentence."', "", r"mine.toml: about: got None, want a text"),
        ('["chain:*"]', '"chain:*"', r"mine.toml: problems: got 'chain:\*', want a sequence"),
        ('"near"', "3", r"mine.toml: network: got 3, want a text"),
    ],
)
def test_a_malformed_file_says_which_entry(read, old, new, message):
    assert old in VALID
    with pytest.raises(ValueError, match=message):
        read(VALID.replace(old, new))


def test_unknown_preset_names_the_nearest():
    with pytest.raises(ValueError, match=r"preset: got 'Queues', want none, .*; did you mean 'queues'\?"):
        read_preset("Queues")
    with pytest.raises(ValueError, match=r"preset: got .\.\./presets/queues., want none, "):
        read_preset("../presets/queues")


def test_settings_with_a_preset_and_overrides():
    settings = settings_with("queues", {"n_envs": 4, "seed": 3})
    assert settings == read_preset("queues").settings | {"n_envs": 4, "seed": 3}
    assert read_preset("queues").settings != settings  # and the preset itself is as before
    assert settings_with("none", {"seed": 3}) == {"seed": 3}
