"""The network protocol: what every kind answers, and a kind that a user writes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_settings import SMALL

import factorax as fx
from factorax.ppo import Config, FactoredPPO, Learner
from factorax.problems import chain, contextual_bandit
from factorax.structure.base_network import RolloutView, TrainingSizes

NET = fx.InfluenceNetwork([[1, 1, 0], [0, 1, 0], [0, 1, 1]])
KINDS = {
    "fixed": NET,
    "schedule": fx.NetworkSchedule(fx.InfluenceNetwork.identity(3), fx.InfluenceNetwork.complete(3, 3), steps=100),
    "curriculum": fx.NetworkSchedule(fx.InfluenceNetwork.identity(3), NET, np.ones((3, 3)), steps=60, ramp="step"),
    "state": fx.StateNetwork(lambda obs, info: jnp.broadcast_to(NET.to_dense(), (*obs.shape[:-1], 3, 3)), NET),
    "lagged": fx.LaggedNetwork.from_lags([[0, 1, -1], [-1, 0, -1], [-1, 2, 0]]),
    "adaptive": fx.AdaptiveNetwork(NET),
}
SIZES = TrainingSizes(n_components=3, n_factors=3, n_targets=3, score_size=5, grouped=False)


class WhileUncertain(fx.BaseNetwork):
    """Edges of a factor count only while the entropy of its policy is above a threshold."""

    def __init__(self, network, threshold):
        self.network, self.threshold = network, threshold

    @property
    def static(self):
        return self.network

    def init_state(self, sizes):
        return jnp.full(sizes.n_factors, jnp.inf)  # the entropy of every factor in the last rollout

    def for_rollout(self, state, rollout):
        open_rows = (state > self.threshold)[:, None]
        return fx.structure.KArray(open_rows * self.network.to_dense())

    def update_state(self, state, evidence):
        entropy = evidence.entropy.mean(axis=0)
        return entropy, {"network/open": (entropy > self.threshold).sum()}

    def present(self, state, timesteps):
        return self.network if timesteps == 0 else fx.InfluenceNetwork(self.for_rollout(state, None).matrix)


@pytest.mark.parametrize("network", KINDS.values(), ids=KINDS)
def test_every_kind_answers_the_same_questions(network):
    static = network.static
    assert static.shape == (3, 3)
    state = network.init_state(SIZES)
    zeros, ones, no = np.zeros((4, 2, 3), np.float32), np.ones((4, 2, 3), np.float32), np.zeros((4, 2, 1), bool)

    @jax.jit
    def credit(state, obs, arrays):
        k = network.for_rollout(state, RolloutView(timesteps=jnp.int32(0), obs=obs, info={}))
        estimates = fx.ppo.credits.Estimates(**arrays, gamma=0.9)
        return network.credit_rollout(k, estimates, lambda k, x: fx.credit(k, x)).credit

    arrays = {"advantage": ones, "value": zeros, "returns": ones, "next_value": zeros, "terminated": no, "ended": no}
    assert credit(state, zeros, arrays).shape == (4, 2, 3)
    assert network.present(state, 0).shape == (3, 3)
    assert (network.present(state, 0).actions, network.present(state, 0).targets) == (static.actions, static.targets)


@pytest.mark.slow
@pytest.mark.parametrize("network", KINDS.values(), ids=KINDS)
def test_every_kind_trains(network):
    learner = Learner.of(chain(3), network, Config(**SMALL, check_network=False))
    state, metrics = jax.jit(learner.update)(learner.init(0))
    assert np.isfinite(metrics["train/loss"])
    assert jax.tree.structure(state.network) == jax.tree.structure(learner.init(0).network)


def test_only_networks_that_stay_the_same_are_tested_for_missing_edges():
    assert {name for name, network in KINDS.items() if network.is_fixed} == {"fixed", "lagged"}


@pytest.mark.slow
def test_a_network_of_ones_own_trains_and_closes():
    """With an entropy bonus of zero the policy of a bandit becomes certain, and its edges are dropped."""
    problem = contextual_bandit(3)
    settings = SMALL | {"n_envs": 64, "batch_size": 128, "learning_rate": 0.02, "n_epochs": 4}
    model = FactoredPPO(problem, WhileUncertain(problem.network, 0.3), **settings)
    assert model.network == problem.network
    model.learn(512 * 40, progress_bar=False)
    opened = [int(metrics["network/open"]) for metrics in model.history]
    assert opened[0] == 3
    assert opened[-1] == 0
    np.testing.assert_array_equal(np.asarray(model.state.network) > 0.3, np.zeros(3, bool))
    assert model.history[-1]["factor/credit_std"].max() == 0


@pytest.mark.slow
def test_until_it_closes_it_is_the_network_it_holds():
    problem, config = contextual_bandit(3), Config(**SMALL, critic="factor", check_network=False)
    states = []
    for network in (problem.network, WhileUncertain(problem.network, -1.0)):
        learner = Learner.of(problem, network, config)
        states.append(jax.jit(learner.update)(learner.init(0))[0].agent)
    for one, other in zip(*map(jax.tree.leaves, states), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_its_state_is_saved_and_restored(tmp_path):
    problem = contextual_bandit(3)
    model = FactoredPPO(problem, WhileUncertain(problem.network, 0.3), **SMALL).learn(64, progress_bar=False)
    model.save(tmp_path / "model.safetensors")
    again = FactoredPPO.load(tmp_path / "model.safetensors", problem, WhileUncertain(problem.network, 0.3))
    np.testing.assert_array_equal(again.state.network, model.state.network)


def test_settings_it_cannot_work_with_are_refused():
    class Undiscounted(WhileUncertain):
        def check_settings(self, config):
            if config.gamma < 1:
                raise ValueError(f"gamma: got {config.gamma}, want 1 with this network")

    network = Undiscounted(NET, 0.1)
    with pytest.raises(ValueError, match=r"gamma: got 0\.99, want 1"):
        Learner.of(chain(3), network, Config(**SMALL))
    assert Learner.of(chain(3), network, Config(**SMALL, gamma=1.0)).spec.network is network


def test_what_is_no_network_is_refused():
    with pytest.raises(TypeError, match="network: got dict, want an InfluenceNetwork"):
        Learner.of(chain(3), {"a1": "psi1"})
    assert Learner.of(chain(3), np.ones((3, 3))).spec.network == fx.InfluenceNetwork.complete(3, 3)
