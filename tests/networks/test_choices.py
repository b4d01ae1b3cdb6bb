"""One network that scores the choices of components with different numbers of them."""

import equinox as eqx
import gymnasium as gym
import jax
import numpy as np
import pytest
from ppo.helping import random_network

from factorax import FactoredPPO, InfluenceNetwork
from factorax.networks import policy_arrays
from factorax.ppo import Config, Learner

SMALL = {"n_envs": 2, "n_steps": 8, "batch_size": 16, "n_epochs": 1, "hidden": (8,)}


class Levers(gym.Env):
    """Each of n components chooses one of its levers; what a lever pays is seen, three numbers of each."""

    def __init__(self, sizes=(2, 4, 3)):
        self.sizes, n, most = sizes, len(sizes), max(sizes)
        self.shape = n, most, 3
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (n * most * 3,), np.float32)
        self.action_space = gym.spaces.MultiDiscrete(sizes)
        self.network = InfluenceNetwork.identity(n)

    def local(self, obs):
        return obs.reshape(*obs.shape[:-1], self.shape[0], -1)

    def _observe(self):
        self.obs = self.np_random.normal(size=self.shape).astype(np.float32)
        return self.obs.ravel()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._observe(), {}

    def step(self, action):
        paid = self.obs[np.arange(self.shape[0]), action, 0]
        self.time += 1
        return self._observe(), float(paid.sum()), False, self.time == 8, {"vector_reward": paid}


def settings(**changed):
    return {
        "policy": "shared",
        "architecture": "choices",
        "critic": "factor",
        "check_network": False,
        **SMALL,
        **changed,
    }


def test_a_choice_is_scored_by_its_own_part_alone():
    learner = Learner.of(Levers, config=Config(**settings(policy="shared,identity=0")))
    net = random_network(lambda: learner.init(0).agent.policy.net)
    local = np.random.default_rng(0).normal(size=(5, 3, 12)).astype(np.float32)
    score = eqx.filter_jit(lambda local: net(None, local))
    scores = np.asarray(score(local))
    assert scores.shape == (5, 3, 4)
    assert np.allclose(scores[:, 1, 2], eqx.filter_jit(net.net)(local[:, 1, 6:9])[:, 0], atol=1e-6)
    swapped = local.reshape(5, 3, 4, 3)[:, :, ::-1].reshape(5, 3, 12)
    assert np.allclose(score(swapped), scores[..., ::-1], atol=1e-6)
    assert eqx.filter_eval_shape(net.features, None, local).shape == (5, 3, 32)


def test_numpy_computes_the_same(monkeypatch):
    model = FactoredPPO(Levers, **settings(policy="shared,identity=2"))
    rng = np.random.default_rng(0)
    agent = jax.tree.map(lambda x: np.float32(np.asarray(x) + 0.3 * rng.normal(size=x.shape)), model.state.agent)
    obs = rng.normal(size=(2, 36)).astype(np.float32)
    policy = model.compiled.collector.plan.policy
    assert policy.by_choice
    local = Levers().local
    ours = type(policy)(**{**vars(policy), "local": local}).network(policy_arrays(agent.policy), 2)(obs)
    theirs, _ = eqx.filter_jit(agent.policy)(obs, local(obs))
    assert np.allclose(ours, theirs, atol=1e-5)


@pytest.mark.slow
def test_it_learns_and_moves_to_other_numbers_of_choices():
    model = FactoredPPO(Levers, **settings(n_envs=16, batch_size=64, n_epochs=4, learning_rate=1e-2, seed=0))
    model.learn(16 * 8 * 30, progress_bar=False)
    best = {2: 0.564, 3: 0.846, 4: 1.029, 5: 1.163, 6: 1.267}  # means of the largest of so many normal numbers
    assert model.evaluate(40)["return"] / 8 > 0.9 * sum(best[k] for k in (2, 4, 3))
    others = (6, 2, 5, 3)
    moved = model.on(lambda: Levers(others))
    assert moved.evaluate(40)["return"] / 8 > 0.85 * sum(best[k] for k in others)
    model.close()


def test_what_does_not_fit():
    class Uneven(Levers):
        def local(self, obs):
            return self.obs_rows(obs)[..., :-1]

        def obs_rows(self, obs):
            return obs.reshape(*obs.shape[:-1], self.shape[0], -1)

    with pytest.raises(ValueError, match="got 'choices' with local observations of 11 numbers, want a multiple of 4"):
        FactoredPPO(Uneven, **settings())
    with pytest.raises(ValueError, match="architecture: got 'choices', but the problem has no local observations"):
        FactoredPPO("CartPole-v1", policy="shared", architecture="choices")
    with pytest.raises(ValueError, match="architecture: got 'choices' with policy='joint', want policy='shared'"):
        FactoredPPO(Levers, **settings(policy="joint"))
