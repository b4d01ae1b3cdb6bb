"""A method on a market: its rate is tuned on other seeds than those reported, and quotes are scored exactly."""

import dataclasses
import json

import numpy as np
import pytest
from factorax_paper.harness.market_runs import MarketRuns, learned_quotes, main, value_of
from factorax_paper.market import value_of_quotes

from factorax import FactoredPPO
from factorax.ppo.presets import settings_with
from factorax.problems import find_problem

SIZES = {"n_envs": 4, "n_steps": 50, "batch_size": 100, "hidden": (8,), "n_epochs": 2}
RUNS = MarketRuns(
    problem="market:1", network="minimum", settings=SIZES, updates=3, rates=(1e-3, 1e-1), first=5, tuning=1, seeds=3
)


@pytest.mark.slow
def test_the_rate_is_tuned_and_a_run_is_the_run_alone(tmp_path):
    out = tmp_path / "out.npz"
    main([json.dumps(dataclasses.asdict(RUNS)), str(out)])
    with np.load(out) as file:
        result = dict(file)
    assert result["rate"] == RUNS.rates[int(result["tuned"].argmax())]
    assert result["returns"].shape == result["steps"].shape == (3, 3)
    assert result["steps"][0].tolist() == [200, 400, 600]
    settings = settings_with("market", SIZES | {"seed": 7, "learning_rate": float(result["rate"])})
    problem = find_problem("market:1")
    alone = FactoredPPO(problem, problem.influence("minimum"), **settings | {"total_timesteps": 600})
    alone.learn(600, progress_bar=False)
    np.testing.assert_allclose(result["returns"][1, -1], alone.history[-1]["rollout/ep_rew_mean"], rtol=1e-3)
    assert result["value"][1] == pytest.approx(value_of(alone), rel=1e-3)


@pytest.mark.slow
def test_scores_are_values_of_the_most_probable_quotes():
    """The exact value of an untrained policy against simulated episodes, within four standard errors."""
    problem = find_problem("market:2,volatility=0")
    settings = {"n_envs": 4, "n_steps": 6, "batch_size": 12, "hidden": (8,), "policy": "shared"}
    model = FactoredPPO(problem, problem.influence("minimum"), **settings)
    returns = model.evaluate(4000)
    assert abs(value_of(model) - returns["return"]) < 4 * returns["error"]
    quotes = learned_quotes(model)
    np.testing.assert_array_equal(quotes[:, :, 0], quotes[:, :, 1])  # one function for all assets
    assert value_of(model) == pytest.approx(2 * value_of_quotes(problem.model, quotes[:, :, 0]))
