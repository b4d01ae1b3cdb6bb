"""A sparse network with actors that see everything is warned about, where actions change what they see."""

import dataclasses
import warnings

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import factorax as fx
from factorax import runs
from factorax.ppo import Callback, Config
from factorax.problems import Step, chain, contextual_bandit, queues
from factorax.problems.failures import EpisodeLost
from factorax.rollouts import SeedWarning
from factorax.rollouts.observability import actions_reach_observations
from factorax.runs.seeds import train_seeds

SMALL = {"n_envs": 2, "n_steps": 4, "batch_size": 8, "n_epochs": 1, "hidden": (4,)}

NOISE = np.random.default_rng(0)
MESSAGE = r"policy: all actors read the full observation, and the network lacks \d+ of \d+ pairs"


class Rooms(gym.Env):
    """Two rooms and what they cost; `visible` says whether observations show how warm they are."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.MultiBinary(2)
    network = fx.InfluenceNetwork.identity(2)

    def __init__(self, *, visible, breaks=False, ends=False, noise=0.0):
        self.visible, self.breaks, self.ends, self.noise = visible, breaks, ends, noise

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.warm = self.np_random.normal(size=2)
        return self.warm * self.visible, {}

    def step(self, action):
        if self.breaks:
            raise EpisodeLost("broke")
        self.warm = self.warm + action
        obs = self.warm * self.visible + self.noise * NOISE.normal(size=2)
        return obs, 0.0, self.ends, False, {"vector_reward": -self.warm}


class Started(Exception):
    """Training has started, and everything that is checked before has been checked."""


class Start(Callback):
    def on_training_start(self, model):
        raise Started


def start_learning(problem, network=None, **settings):
    """Start to train, but compile nothing."""
    with pytest.raises(Started):
        fx.FactoredPPO(problem, network, **SMALL | settings).learn(8, Start(), progress_bar=False)


def test_whether_actions_reach_observations():
    assert not actions_reach_observations(chain(4, delay=2))
    assert not actions_reach_observations(contextual_bandit(3))
    assert actions_reach_observations(queues(2))
    assert actions_reach_observations(lambda: Rooms(visible=True))
    assert not actions_reach_observations(lambda: Rooms(visible=False))
    assert actions_reach_observations(lambda: Rooms(visible=False, breaks=True))  # unknown counts as reached
    assert not actions_reach_observations(lambda: Rooms(visible=True, ends=True))  # no action follows an observation
    with pytest.warns(SeedWarning, match="differ, after a few steps"):  # it does not repeat itself
        assert not actions_reach_observations(lambda: Rooms(visible=False, noise=1.0))


def delayed(*, visible, ends=False):
    """A JAX problem whose actions are in the state now, and in the observation after two more steps if `visible`."""
    bandit = contextual_bandit(2)

    def reset(key):
        return (jnp.zeros(2), jnp.zeros(2)), {"x": jnp.zeros(2)}

    def step(key, state, action):
        state = (jnp.asarray(action, jnp.float32), state[0])
        obs = {"x": jax.random.normal(key, 2) + visible * state[1]}
        return Step(state, obs, jnp.zeros(2), jnp.array(ends), jnp.array(False))

    space = gym.spaces.Dict(x=gym.spaces.Box(-np.inf, np.inf, (2,), np.float32))
    return dataclasses.replace(bandit, reset=reset, step=step, observation_space=space, local=None)


def test_actions_of_a_jax_problem_that_show_later_reach_observations():
    assert actions_reach_observations(delayed(visible=True))
    assert not actions_reach_observations(delayed(visible=False))
    assert not actions_reach_observations(delayed(visible=True, ends=True))


@pytest.mark.slow
@pytest.mark.parametrize("problem", [queues(2), lambda: Rooms(visible=True)], ids=["jax", "host"])
def test_the_warning_comes_once_when_training_starts(problem):
    model = fx.FactoredPPO(problem, policy="joint", **SMALL)
    with pytest.warns(fx.structure.StructureWarning, match=MESSAGE) as warned:
        model.learn(8, progress_bar=False)
    assert len(warned) == 1
    model.learn(8, reset_num_timesteps=False, progress_bar=False)  # warnings are errors


@pytest.mark.slow
def test_the_warning_comes_once_for_seeds_side_by_side(tmp_path):
    with pytest.warns(fx.structure.StructureWarning, match=MESSAGE) as warned:
        train_seeds(
            "queues:1x2",
            Config(**SMALL, policy="joint", total_timesteps=8),
            [tmp_path / "a", tmp_path / "b"],
            progress_bar=False,
        )
    assert len(warned) == 1
    assert len(list(runs.read_metrics(tmp_path / "a"))) == 1


@pytest.mark.slow
def test_where_there_is_no_warning():
    """Local actors, a network that lacks nothing, actions that no observation shows, and where it is turned off."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start_learning(queues(2), policy="shared")
        start_learning(queues(2), fx.InfluenceNetwork.complete(*queues(2).network.shape), policy="joint")
        start_learning(lambda: Rooms(visible=False))
        start_learning(chain(3), policy="joint")
        start_learning(queues(2), policy="joint", check_network=False)
        start_learning(queues(2), policy="joint", method="ppo")
        start_learning(
            lambda: Rooms(visible=True), fx.InfluenceNetwork._derive(np.array([[1, 0], [1, 0]], bool), None, None)
        )
        fx.FactoredPPO(queues(2), policy="joint", **SMALL).learn(0, progress_bar=False)


@pytest.mark.slow
def test_shared_actors_without_local_observations_see_everything():
    with pytest.warns(fx.structure.StructureWarning, match=MESSAGE):
        start_learning(lambda: Rooms(visible=True), policy="shared,identity=2")
