"""Trainings and controllers of cities as processes."""

import io
import os

import pytest
from factorax_paper.experiments import find
from factorax_paper.experiments.cities import Settings
from factorax_paper.harness.city_parts import FIRST_SEED, CityRun
from factorax_paper.harness.city_training import FIRST_SEED as TUNED_ON
from factorax_paper.harness.experiment import reproduce
from rich.console import Console


def test_the_arguments_of_a_training():
    run = CityRun("cologne3", "transfer", "section", 2, 4, 2, 3, 100, 1, {"gamma": 0.9}, {"turns": True}, "cologne8")
    assert run.name == "cologne3-transfer-2"
    assert run.arguments[:6] == ["--city", "cologne3", "--network", "section", "--seed", "2"]
    assert run.arguments[-2:] == ["--transfer", "cologne8"]
    assert '{"gamma": 0.9}' in run.arguments
    assert '{"horizon": 100, "turns": true}' in run.arguments


def test_settings_were_not_chosen_on_these_seeds():
    assert abs(FIRST_SEED - TUNED_ON) >= 100


@pytest.mark.slow
@pytest.mark.sumo
def test_a_tiny_experiment(resco_package, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(resco_package), os.environ.get("PYTHONPATH", "")]))
    tiny = Settings(("cologne1",), ("section",), ("cologne1", "cologne3"), (2,), 1, 1, 2, 2, horizon=60)
    console = Console(file=io.StringIO())
    summary = reproduce(find("cities"), settings=tiny, out=tmp_path / "out", workers=2, console=console)
    assert summary["cities"]["cologne1"]["methods"]["section"]["played"] == 2
    assert summary["transfer"]["played"] == 2
    assert (tmp_path / "out" / "figure.png").exists()
    assert reproduce(find("cities"), settings=tiny, out=tmp_path / "out", console=console) == summary
