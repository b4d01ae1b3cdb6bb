"""`AdaptiveNetwork`: estimates of every pair, which edges stay, and training that resumes with them."""

import json
import warnings

import jax
import numpy as np
import pytest

import factorax as fx
from factorax import runs
from factorax.ppo import AdaptiveNetwork, Config, adaptive
from factorax.problems import contextual_bandit
from factorax.structure import StructureWarning
from factorax.structure.base_network import TrainingSizes


def test_gradients_of_pairs_and_their_noise_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    n_envs, steps, c, h, m = 5, 7, 3, 2, 4
    outer, inner = rng.normal(size=(steps * n_envs, c, 1)), rng.normal(size=(steps * n_envs, c, h))
    psi = rng.normal(size=(steps * n_envs, m))
    pairs = jax.jit(lambda scores, psi: adaptive.pair_gradients(scores, psi, n_envs))
    mean, noise = pairs(adaptive.Scores(outer, inner), psi)
    z = outer * np.concatenate([inner, np.ones((steps * n_envs, c, 1))], axis=-1)
    centred = psi - psi.mean(axis=0)
    each = np.einsum("tbcp,tbj->bcpj", z.reshape(steps, n_envs, c, -1), centred.reshape(steps, n_envs, m)) / steps
    np.testing.assert_allclose(mean, each.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(noise, each.var(axis=0, ddof=1).sum(axis=1) / n_envs, rtol=1e-3)


def network_of(matrix):
    """A network that leaves targets out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StructureWarning)
        return fx.InfluenceNetwork(matrix)


def row_after(network, gradient, noise, rollouts):
    """The row of K after several rollouts with the same gradient ``(1, 1, m)`` and noise ``(1, m)``."""
    m = network.initial.shape[1]
    state = network.init_state(TrainingSizes(n_components=1, n_factors=1, n_targets=m, score_size=1, grouped=False))
    revised = jax.jit(lambda *arguments: network.revised(*arguments))
    for _ in range(rollouts):
        state = revised(state, np.float32(gradient), np.float32(noise))
    return np.asarray(state.matrix)[0]


def test_edges_that_pay_stay_and_come_and_those_that_do_not_go():
    initial = network_of([[1, 1, 0, 0]])
    strong, weak = 3.0, 0.01
    gradient, noise = [[[strong, weak, strong, weak]]], [[1.0] * 4]
    network = AdaptiveNetwork(initial, every=5, window=10)
    np.testing.assert_array_equal(row_after(network, gradient, noise, 4), [1, 1, 0, 0])  # not yet
    np.testing.assert_array_equal(row_after(network, gradient, noise, 5), [1, 0, 1, 0])


def test_between_the_margins_an_edge_stays_as_it_is():
    noise = [[1.0, 1.0]]
    network = AdaptiveNetwork(network_of([[1, 0]]), every=1, window=1, margin=0.5)
    for squared in (1.8, 2.4):  # bias² = |g|² − noise: 0.8 and 1.4 times the noise
        np.testing.assert_array_equal(row_after(network, [[[squared**0.5] * 2]], noise, 1), [1, 0])
    np.testing.assert_array_equal(row_after(network, [[[1.5**0.5, 2.6**0.5]]], noise, 1), [0, 1])


def test_edges_of_a_shared_policy_count_as_often_as_there_are_of_their_kind():
    """Eight components with the same edge: leaving all of them out costs 64 bias², keeping them 8 noise."""
    gradient, noise = [[[1.2**0.5, 1.2**0.5]]], [[1.0, 1.0]]  # bias² is 0.2 times the noise
    for copies, row in ((1, [0, 0, 1]), (8, [1, 1, 1])):
        network = AdaptiveNetwork(network_of([[1, 0, 1]]), every=1, window=1, margin=0.5, copies=copies)
        np.testing.assert_array_equal(row_after(network, [[[*gradient[0][0], 9.0]]], [[*noise[0], 1.0]], 1), row)
    with pytest.raises(ValueError, match="copies"):
        AdaptiveNetwork(network_of([[1]]), copies=0)


def test_a_row_without_any_edge_that_pays_keeps_its_initial_edges():
    network = AdaptiveNetwork(network_of([[1, 1, 0]]), every=1, window=1)
    np.testing.assert_array_equal(row_after(network, [[[0.0] * 3]], [[1.0] * 3], 3), [1, 1, 0])


@pytest.mark.slow
def test_training_logs_by_name_which_edges_came_and_went_and_resumes(tmp_path):
    settings = {"n_envs": 64, "n_steps": 8, "batch_size": 128, "n_epochs": 2, "learning_rate": 3e-3, "hidden": (16,)}
    config = Config(total_timesteps=512 * 20, **settings)
    whole = runs.train("contextual-bandit:3", config, tmp_path / "a", network="adaptive", progress_bar=False)
    rows = runs.read_metrics(tmp_path / "a")
    removed = [name for row in rows for name in row.get("network/went", [])]
    added = [name for row in rows for name in row.get("network/came", [])]
    assert rows[-1]["network/edges"] == 9 + len(added) - len(removed) == whole.network.n_edges
    assert "a1 → psi2" in removed
    assert whole.network == contextual_bandit(3).network
    half = Config(total_timesteps=512 * 12, **settings)
    runs.train("contextual-bandit:3", half, tmp_path / "b", network="adaptive", progress_bar=False)
    again = runs.train("contextual-bandit:3", config, tmp_path / "b", network="adaptive", progress_bar=False)
    for a, b in zip(*(jax.tree.leaves(model.state.agent) for model in (again, whole)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    loaded = fx.FactoredPPO.load(tmp_path / "b")
    assert loaded.network == whole.network
    assert json.loads((tmp_path / "b" / "config.json").read_text())["network"] == "adaptive"


@pytest.mark.parametrize("bad", [{"every": 0}, {"window": 0}, {"margin": -1}])
def test_bad_settings_of_adaptive_are_refused(bad):
    with pytest.raises(ValueError, match=rf"{next(iter(bad))}: got (0|-1), want a"):
        AdaptiveNetwork(fx.InfluenceNetwork.identity(2), **bad)
