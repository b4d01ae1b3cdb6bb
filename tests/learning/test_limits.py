"""Limits on what files may ask for; what the user asks for has none."""

import dataclasses

import pytest

from factorax.learning import Config, FactoredPPO
from factorax.learning.limits import checked_settings

SMALL = {"n_envs": 4, "n_steps": 6, "batch_size": 12, "n_epochs": 1, "hidden": (8,)}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_envs": 2**20 + 1}, r"n_envs: got 1,048,577 from a file, want at most 1,048,576"),
        ({"n_envs": 2**20, "n_steps": 2**11}, r"n_steps: got 2,048 × 1,048,576 environments from a file, want"),
        ({"hidden": (4,) * 65}, r"hidden: got 65 layers from a file, want at most 64"),
    ],
)
def test_what_is_too_large(settings, message):
    with pytest.raises(ValueError, match=message):
        checked_settings(dataclasses.asdict(Config(batch_size=1, **settings)))


def test_what_is_large_and_meant():
    large = dataclasses.asdict(Config(n_envs=4096, n_steps=1024, hidden=(1024,) * 4))
    assert checked_settings(large) == large


def test_the_address_of_a_cluster_is_the_users_alone():
    """Whoever runs a Ray cluster runs code in the processes that connect to it."""
    settings = dataclasses.asdict(Config(rollouts="ray", ray_address="stranger:6379"))
    assert checked_settings(settings) == settings | {"ray_address": ""}


@pytest.mark.slow
def test_a_model_is_no_larger_than_its_file_unless_the_user_says_so(tmp_path, monkeypatch):
    FactoredPPO("contextual-bandit:3", **SMALL).save(tmp_path / "m")
    monkeypatch.setattr("factorax.learning.limits.SLACK", 2**10)
    assert FactoredPPO.load(tmp_path / "m").config.n_envs == 4
    with pytest.raises(ValueError, match=r"has [\d,]+ bytes, but a model with its settings takes [\d,]+"):
        FactoredPPO.load(tmp_path / "m", hidden=(512, 512))
    assert FactoredPPO.load(tmp_path / "m", n_envs=4096).config.n_envs == 4096
