"""The command discover: what it prints, what it writes, and what it refuses in one line."""

import json

import pytest

import factorax as fx
from factorax.discovery import Discovery
from factorax.problems import contextual_bandit

pytestmark = pytest.mark.usefixtures("surroundings")


def test_from_a_problem_to_files(factorax, tmp_path):
    code, out, err = factorax(
        "discover", "contextual-bandit:3", "--horizon", 1, "--trials", 3,
        "--out", "found.safetensors", "--network", "K.json", "--draw", "found.png",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert "3 of 9 pairs are edges at a false-discovery rate of 0.05" in out
    assert "a2" in out
    assert fx.InfluenceNetwork.load(tmp_path / "K.json") == contextual_bandit(3).network
    assert Discovery.load(tmp_path / "found.safetensors").also["one-step"].kind == "one-step"
    assert (tmp_path / "found.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
@pytest.mark.parametrize("method", ["score", "gated"])
def test_for_programs(method, factorax):
    arguments = ["discover", "contextual-bandit:2", "--method", method, "--samples", 2000, "--horizon", 1, "--json"]
    code, out, err = factorax(*arguments)
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["network"] == "one-step"
    assert {(edge["action"], edge["target"]) for edge in found["edges"]} == {("a1", "psi1"), ("a2", "psi2")}


@pytest.mark.filterwarnings("ignore:problem. the random numbers of the simulator shift")
def test_streams_are_shown(factorax):
    """Where random numbers shift the report says so, and no edge is vouched for."""
    code, out, _ = factorax(
        "discover", "discovery.shifting:Shifting", "--horizon", 2, "--trials", 12, "--json"
    )  # fmt: skip
    assert code == 0
    report = json.loads(out)
    assert report["streams"] == "shifted"
    assert all(edge["p_value"] > 0 for edge in report["edges"])
