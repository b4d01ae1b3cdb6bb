"""A short training on a network of three lights that stands for one of RESCO."""

import dataclasses
import json

import pytest
from factorax_paper.harness import city_controllers, city_training

pytestmark = [pytest.mark.sumo, pytest.mark.slow]


def test_training_evaluating_and_moving(resco_package, tmp_path):
    training = city_training.CityTraining(
        city="cologne1",
        out=tmp_path / "run",
        episodes=4,
        evaluations=2,
        early=1,
        seeds=2,
        transfer=("cologne3",),
        settings='{"batch_size": 10, "hidden": [8], "n_epochs": 1}',
        environment='{"horizon": 100}',
    )
    city_training.main(training)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["done"]
    assert len(result["episodes"]) == 4
    assert [row["episode"] for row in result["evaluated"]] == [0, 1, 2, 3, 4]
    assert [row["final"] for row in result["evaluated"]] == [False, False, False, True, True]
    assert all(len(row["delays"]) == 2 for row in result["evaluated"] if row["final"])
    assert len(result["transfer"]["cologne3"]) == 2
    assert result["trips"] > 30
    assert (tmp_path / "run" / "model.safetensors").exists()
    again = city_training.main(dataclasses.replace(training, episodes=5, evaluations=1, transfer=()))
    assert again.episodes[:4] == result["episodes"]
    assert len(again.episodes) == 5
    assert [row["episode"] for row in again.evaluated if row["final"]] == [5]


def test_controllers(resco_package, tmp_path):
    options = city_controllers.CityControllers(
        city="cologne3", out=tmp_path, seeds=2, names=("fixed", "greedy"), environment='{"horizon": 100}'
    )
    result = city_controllers.main(options)
    assert json.loads((tmp_path / "result.json").read_text()) == result
    assert all(len(row["delays"]) == 2 for row in result.values())
