"""What was learnt in lanes, in SUMO."""

import numpy as np
import pytest
from factorax_paper.experiments.traffic_3x3 import GLOBAL, JOINT, LOCAL, METHODS
from factorax_paper.harness.traffic_study import joint_options
from factorax_traffic.families import in_sumo

from factorax.ppo import FactoredPPO, find_network
from factorax.ppo.presets import settings_with
from factorax.problems.registry import find_problem

pytestmark = pytest.mark.sumo
SETTINGS = {"n_envs": 2, "n_steps": 200, "batch_size": 100, "n_epochs": 5, "hidden": (16,), "learning_rate": 0.01}


NIGHTLY = pytest.mark.nightly


@pytest.mark.parametrize("method", [JOINT, pytest.param(GLOBAL, marks=NIGHTLY), LOCAL])
def test_a_policy_of_every_method_scores_the_same_within_one_per_cent(method):
    """With cars that are all alike, so that both have the same ones."""
    name = "traffic:3x3,action=gaussian,speed_deviation=0,horizon=200,slots=20"
    options = joint_options("traffic-paper") if METHODS[method].joint else {}
    options = {name.removeprefix("--"): value for name, value in options.items()}
    problem = find_problem(name)
    network = find_network(problem, METHODS[method].network)
    settings = settings_with("traffic-paper", SETTINGS | options)
    model = FactoredPPO(problem, network, **settings).learn(1200, progress_bar=False)
    here, there = model.evaluate(2), model.on(find_problem(in_sumo(name)), network).evaluate(1)
    assert there["return"] == pytest.approx(here["return"], rel=0.01)
    np.testing.assert_allclose(there["targets"], here["targets"], rtol=0.01, atol=0.01)
    assert here["return"] < 0
