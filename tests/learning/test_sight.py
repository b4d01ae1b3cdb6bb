"""A sparse network with actors that see everything is warned about, where actions change what they see."""

import warnings

import gymnasium as gym
import numpy as np
import pytest

import factorax as fx
from factorax.learning import Config, runs
from factorax.learning.many import train_seeds
from factorax.learning.sight import actions_reach_observations
from factorax.problems import chain, contextual_bandit, queues
from factorax.problems.failures import EpisodeLost

pytestmark = pytest.mark.usefixtures("compiled_in_haste")
NOISE = np.random.default_rng(0)
SMALL = {"n_envs": 2, "n_steps": 4, "batch_size": 8, "n_epochs": 1, "hidden": (4,)}
SAID = r"policy: all actors read the whole observation, and the network lacks \d+ of \d+ pairs"


class Rooms(gym.Env):
    """Two rooms and what they cost; `seen` says whether anybody can see how warm they are."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.MultiBinary(2)
    network = fx.InfluenceNetwork.identity(2)

    def __init__(self, *, seen, breaks=False, ends=False, noise=0.0):
        self.seen, self.breaks, self.ends, self.noise = seen, breaks, ends, noise

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.warm = self.np_random.normal(size=2)
        return self.warm * self.seen, {}

    def step(self, action):
        if self.breaks:
            raise EpisodeLost("broke")
        self.warm = self.warm + action
        seen = self.warm * self.seen + self.noise * NOISE.normal(size=2)
        return seen, 0.0, self.ends, False, {"vector_reward": -self.warm}


def learn(problem, network=None, **settings):
    fx.FactoredPPO(problem, network, **SMALL | settings).learn(8, progress_bar=False)


def test_whether_actions_reach_observations():
    assert not actions_reach_observations(chain(4, delay=2))
    assert not actions_reach_observations(contextual_bandit(3))
    assert actions_reach_observations(queues(2))
    assert actions_reach_observations(lambda: Rooms(seen=True))
    assert not actions_reach_observations(lambda: Rooms(seen=False))
    assert actions_reach_observations(lambda: Rooms(seen=False, breaks=True))  # nobody knows
    assert not actions_reach_observations(lambda: Rooms(seen=True, ends=True))  # nobody answers
    assert not actions_reach_observations(lambda: Rooms(seen=False, noise=1.0))  # it says nothing of actions


@pytest.mark.parametrize("problem", [queues(2), lambda: Rooms(seen=True)], ids=["jax", "host"])
def test_it_is_said_once_when_training_begins(problem):
    model = fx.FactoredPPO(problem, **SMALL)
    with pytest.warns(fx.StructureWarning, match=SAID) as said:
        model.learn(8, progress_bar=False)
    assert len(said) == 1
    model.learn(16, progress_bar=False)  # warnings are errors


def test_of_seeds_side_by_side(tmp_path):
    with pytest.warns(fx.StructureWarning, match=SAID) as said:
        train_seeds(
            "queues:1x2", Config(**SMALL, total_timesteps=8), [tmp_path / "a", tmp_path / "b"], progress_bar=False
        )
    assert len(said) == 1
    assert len(list(runs.metrics(tmp_path / "a"))) == 1


def test_where_there_is_nothing_to_say():
    """Local actors, a network that lacks nothing, actions that nobody sees, and who asked not to be told."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learn(queues(2), policy="shared")
        learn(queues(2), fx.InfluenceNetwork.complete(*queues(2).network.shape))
        learn(lambda: Rooms(seen=False))
        learn(chain(3))
        learn(queues(2), check_network=False)
        learn(queues(2), estimator="vanilla")
        learn(lambda: Rooms(seen=True), fx.InfluenceNetwork._derive(np.array([[1, 0], [1, 0]], bool), None, None))
        fx.FactoredPPO(queues(2), **SMALL).learn(0, progress_bar=False)


def test_shared_actors_without_local_observations_see_everything():
    with pytest.warns(fx.StructureWarning, match=SAID):
        learn(lambda: Rooms(seen=True), policy="shared")
