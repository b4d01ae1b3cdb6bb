"""A short training on a network of three lights that stands for one of RESCO."""

import json
import subprocess
import sys

import pytest

from factorax.experiments.harness import city_controllers, city_training

pytestmark = [pytest.mark.sumo, pytest.mark.slow]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package like sumo-rl, with two networks."""
    from factorax.problems.traffic.sumo.network import program

    for name, count in (("cologne1", "2"), ("cologne3", "3")):
        folder = tmp_path / "sumo_rl" / "nets" / "RESCO" / name
        folder.mkdir(parents=True)
        command = [program("netgenerate"), "--grid", "--grid.x-number", count, "--grid.y-number", "1"]
        command += ["--grid.length", "150", "--grid.attach-length", "100", "--default-junction-type", "traffic_light"]
        command += ["-o", str(folder / f"{name}.net.xml"), "--no-warnings"]
        subprocess.run(command, check=True, capture_output=True)
        (folder / f"{name}.rou.xml").write_text(
            """<routes><flow id="a" from="left0A0" to="A0B0" begin="25200" end="25300" period="4"/>
            <flow id="b" from="bottom0A0" to="A0B0" begin="25200" end="25300" period="7"/></routes>"""
        )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])


def test_training_evaluating_and_moving(installed, tmp_path):
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


def test_controllers(installed, tmp_path):
    options = city_controllers.CityControllers(
        city="cologne3", out=tmp_path, seeds=2, names=("fixed", "greedy"), environment='{"horizon": 100}'
    )
    result = city_controllers.main(options)
    assert json.loads((tmp_path / "result.json").read_text()) == result
    assert all(len(row["delays"]) == 2 for row in result.values())
