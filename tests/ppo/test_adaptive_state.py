"""`AdaptiveStateNetwork`: a network for every regime, found where influence depends on the state."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_settings import SMALL

import factorax as fx
from factorax.ppo import AdaptiveNetwork, AdaptiveStateNetwork, find_network
from factorax.problems import Problem, Step
from factorax.structure.base_network import TrainingSizes

COMPLETE = fx.InfluenceNetwork.complete(2, 2)
SIDES = {"features": [0], "edges": [[0.0]]}


def crossing():
    """ψ = a if s < 0, and a with its entries exchanged if s > 0; the wanted action is 1 everywhere."""

    def reset(key):
        obs = jnp.where(jax.random.bernoulli(key), 1.0, -1.0)[None]
        return obs, obs

    def step(key, state, action):
        psi = -jnp.square(jnp.where(state[0] > 0, action[::-1], action) - 1) + jax.random.normal(key, (2,))
        return Step(state, state, psi, jnp.array(True), jnp.array(False))

    return Problem(
        name="crossing",
        reset=reset,
        step=step,
        observation_space=gym.spaces.Box(-1, 1, (1,), np.float32),
        action_space=gym.spaces.Box(-2, 2, (2,), np.float32),
        network=COMPLETE,
        weights=np.ones(2),
    )


@pytest.mark.slow
def test_every_regime_finds_its_own_network():
    """And one that is never visited, s > 5, keeps that it began with."""
    network = AdaptiveStateNetwork.bins(COMPLETE, [0], [[0.0, 5.0]])
    settings = {"n_envs": 64, "n_steps": 8, "batch_size": 512, "n_epochs": 1, "hidden": (8,), "learning_rate": 1e-4}
    model = fx.FactoredPPO(crossing(), network, **settings).learn(512 * 16, progress_bar=False)
    left, right, never = network.of_regimes(model.state.network)
    assert never == COMPLETE
    assert left.to_dense().astype(int).tolist() == [[1, 0], [0, 1]]
    assert right.to_dense().astype(int).tolist() == [[0, 1], [1, 0]]
    assert model.network.n_edges == 4  # every edge that some regime has
    assert model.history[-1]["network/edges"] == pytest.approx(2, abs=0.01)


@pytest.mark.slow
def test_one_regime_is_an_adaptive_network():
    """The same estimates and edges as those of `AdaptiveNetwork`, which this is then."""
    networks = (
        AdaptiveStateNetwork(COMPLETE, lambda obs: jnp.zeros(obs.shape[:-1], jnp.int32), 1),
        AdaptiveNetwork(COMPLETE),
    )
    states = [fx.FactoredPPO(crossing(), net, **SMALL).learn(24, progress_bar=False).state.network for net in networks]
    np.testing.assert_allclose(states[0].gradient[0], states[1].gradient, atol=1e-5)
    np.testing.assert_allclose(states[0].noise[0], states[1].noise, rtol=1e-3, atol=1e-6)


def test_bins_of_several_features():
    network = AdaptiveStateNetwork.bins(COMPLETE, [1, 0], [[-1.0, 1.0], [0.0]])
    assert network.regimes == 6
    obs = jnp.array([[-1.0, -2.0], [1.0, 0.0], [1.0, 2.0]])
    assert network.regime(obs).tolist() == [0, 3, 5]


def test_by_name():
    network = find_network(crossing(), "adaptive-state:0:-0.5,0.5")
    assert network.regimes == 3
    assert network.initial.n_edges == 4
    assert find_network(fx.problems.chain(3), "adaptive-state:0:0+2:0.5").regimes == 4
    with pytest.raises(ValueError, match="network: got 'adaptive-state:x', want the index of an observation"):
        find_network(crossing(), "adaptive-state:x")


def test_errors():
    with pytest.raises(
        ValueError, match="features, edges: got 1 and 2, want one or more features with one list of edges"
    ):
        AdaptiveStateNetwork.bins(COMPLETE, [0], [[0.0], [1.0]])
    with pytest.raises(ValueError, match=r"edges: got \[1.0, 0.0\], want increasing boundaries of bins"):
        AdaptiveStateNetwork.bins(COMPLETE, [0], [[1.0, 0.0]])
    with pytest.raises(ValueError, match=r"critic: got 'factor' .* with a AdaptiveStateNetwork"):
        fx.FactoredPPO(crossing(), AdaptiveStateNetwork.bins(COMPLETE, **SIDES), critic="factor", **SMALL)
    with pytest.raises(ValueError, match=r"regime: returned float32 of shape .* want whole numbers"):
        fx.FactoredPPO(crossing(), AdaptiveStateNetwork(COMPLETE, lambda obs: obs[..., 0], 2), **SMALL)
    sizes = TrainingSizes(n_components=2, n_factors=2, n_targets=2, score_size=9, grouped=False)
    with pytest.raises(ValueError, match="regimes: got 1000000, with estimates of 36,000,000 numbers"):
        AdaptiveStateNetwork(COMPLETE, len, 10**6).init_state(sizes)


@pytest.mark.parametrize("index", [99, 999_999_999_999])
def test_an_index_beyond_the_observation_is_refused(index):
    with pytest.raises(ValueError, match=f"features: got {index}, want .* 5 entries"):
        fx.FactoredPPO(fx.problems.chain(4), f"adaptive-state:{index}:0", **SMALL)
