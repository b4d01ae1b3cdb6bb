"""Networks side by side: each run as if it were alone."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import factorax as fx
from factorax import runs
from factorax.ppo import Config, FactoredPPO
from factorax.runs.seeds import ChosenNetwork

CONFIG = Config(
    n_envs=4, n_steps=10, batch_size=20, n_epochs=2, hidden=(8,), policy="shared", seed=3, total_timesteps=80,
    check_network=False,
)  # fmt: skip
PROBLEM = "queues:1x2"


@pytest.mark.slow
def test_networks_trained_together_equal_separate_runs(tmp_path):
    outs = {name: [tmp_path / name / f"seed-{s}" for s in (3, 4)] for name in ("own", "complete")}
    models = runs.train_networks(PROBLEM, CONFIG, outs, progress_bar=False)
    assert [model.config.seed for model in models] == [3, 4, 3, 4]
    alone = runs.train(PROBLEM, dataclasses.replace(CONFIG, seed=4), tmp_path / "alone", progress_bar=False)
    curves = [[row["train/loss"] for row in runs.read_metrics(out)] for out in (outs["own"][1], tmp_path / "alone")]
    assert curves[0] == pytest.approx(curves[1], rel=1e-3, abs=1e-4)
    for mine, theirs in zip(jax.tree.leaves(models[1].state.agent), jax.tree.leaves(alone.state.agent), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-4)
    losses = [[row["train/loss"] for row in runs.read_metrics(out[0])] for out in outs.values()]
    assert losses[0] != losses[1]
    loaded = FactoredPPO.load(outs["complete"][0])
    assert loaded.network.density == 1
    again = runs.train_networks(PROBLEM, CONFIG, outs, progress_bar=False)  # finished: nothing is left to do
    assert [model.num_timesteps for model in again] == [80] * 4


@pytest.mark.parametrize(
    ("networks", "changes", "message"),
    [
        (("own", "adaptive"), {}, "networks: got 'adaptive', which varies"),
        (("own", "complete"), {"check_network": True}, "check_network: got True with several networks"),
        (("own", "complete"), {"method": "ppo"}, "networks: got method='ppo'"),
    ],
)
def test_networks_that_vary_are_refused_together(networks, changes, message, tmp_path):
    outs = {name: [tmp_path / name] for name in networks}
    with pytest.raises(ValueError, match=message):
        runs.train_networks("contextual-bandit:3", dataclasses.replace(CONFIG, **changes), outs, progress_bar=False)
    assert not any(tmp_path.iterdir())


NETWORKS = [fx.InfluenceNetwork([[1, 0], [0, 1]]), fx.InfluenceNetwork([[1, 0.5], [1, 1]])]


@pytest.mark.parametrize("i", [0, 1])
def test_it_credits_as_the_network_it_stands_for(i):
    chosen, psi = ChosenNetwork(NETWORKS), jnp.array([[2.0, 3.0], [-1.0, 4.0]])
    k = chosen.for_rollout(chosen.matrix(i), None)
    np.testing.assert_allclose(fx.credit(k, psi), fx.credit(NETWORKS[i], psi))


def test_shapes_must_be_the_same():
    with pytest.raises(ValueError, match=r"networks: got shapes \[\(2, 2\), \(3, 3\)\], want the same for all"):
        ChosenNetwork([NETWORKS[0], fx.InfluenceNetwork.identity(3)])
