"""Scores of controllers: those of the lane simulator and of SUMO agree, and the command prints them."""

import json

import numpy as np
import pytest
from factorax_traffic.controller_scores import controller_returns


@pytest.mark.slow
def test_switching_often_beats_never_switching():
    always, never = (controller_returns(name, "traffic:1x1,horizon=100", episodes=3) for name in ("always", "never"))
    assert always.shape == (3,)
    assert (always > never).all()


def test_unknown_controllers_and_other_problems():
    with pytest.raises(ValueError, match="controller: got 'gap', want one of always, "):
        controller_returns("gap")
    with pytest.raises(ValueError, match="want a grid of lights"):
        controller_returns("always", "chain:8")


@pytest.mark.sumo
def test_sumo_and_its_twin_agree():
    """With cars that are all alike there is one episode, and both play it."""
    pytest.importorskip("libsumo")
    problem = "traffic:1x1,horizon=60,speed_deviation=0"
    lanes, sumo = (controller_returns("every-10", problem, episodes=2, sumo=sumo) for sumo in (False, True))
    np.testing.assert_allclose(lanes, sumo, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.usefixtures("surroundings")
def test_evaluate_scores_a_controller(factorax):
    code, out, err = factorax("evaluate", "always", "--problem", "traffic:1x1,horizon=40,slots=20", "--episodes", 2)
    assert (code, err) == (0, "")
    assert out.startswith("traffic:1x1,horizon=40,slots=20: always: return -")
    code, out, _ = factorax("evaluate", "always", "--problem", "traffic:1x1,horizon=40", "--episodes", 2, "--json")
    score = json.loads(out)
    assert score["return"] == pytest.approx(np.mean(score["episodes"]))
