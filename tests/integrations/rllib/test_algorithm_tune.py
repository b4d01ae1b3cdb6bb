"""Sweeps of K with Ray Tune over configurations of RLlib; docs/guides/rllib.md runs those over our own learner."""

import warnings

import pytest

import factorax as fx
from factorax.integrations.rllib import FactoredPPOConfig

pytestmark = [pytest.mark.rllib, pytest.mark.filterwarnings("ignore")]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("ray.rllib", reason="RLlib is an extra, in an environment of its own", exc_type=ImportError)
    from ray import tune


def test_networks_and_learning_rates_in_a_configuration(tmp_path):
    networks = [fx.InfluenceNetwork.identity(4), fx.InfluenceNetwork.complete(4, 4)]
    config = (
        FactoredPPOConfig()
        .problem("contextual-bandit:4")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .training(network=tune.grid_search(networks), lr=tune.uniform(1e-3, 1e-2))
        .training(train_batch_size_per_learner=128, minibatch_size=64, num_epochs=2)
    )
    results = tune.Tuner(
        config.algo_class,
        param_space=config,
        run_config=tune.RunConfig(storage_path=str(tmp_path), stop={"training_iteration": 2}, verbose=0),
    ).fit()
    assert results.num_errors == 0
    result = [result.config["network"] for result in results]
    assert sorted(network.density for network in result) == [0.25, 1.0]
    assert all(result.metrics["env_runners"]["episode_return_mean"] > 0 for result in results)
