"""Warnings about targets, ends of episodes and first observations that are probably not intended."""

import dataclasses

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest

import factorax as fx
from factorax.problems import contextual_bandit
from factorax.rollouts import DataWarning, SeedWarning

SMALL = {"n_envs": 4, "n_steps": 256, "batch_size": 1024, "n_epochs": 1, "hidden": (4,), "check_network": False}


class Walk(gym.Env):
    """Two numbers that change by chance, with targets that `psi` computes from the action and the random generator."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    network, weights = fx.InfluenceNetwork([[1, 1], [0, 1]], targets=["cost", "delay"]), np.ones(2)

    def __init__(self, psi=lambda action, rng: [action[0], action[1]], ends=(False, True), scenarios=None):
        self.psi, self.ends, self.scenarios = psi, ends, scenarios

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        self.place = self.np_random.normal(size=2) if self.scenarios is None else np.ones(2) * min(seed, self.scenarios)
        return self.place.astype(np.float32), {}

    def step(self, action):
        self.time += 1
        over = self.time == 8
        psi = np.array(self.psi(action, self.np_random), float)
        self.place = self.place + self.np_random.normal(size=2)
        terminated, truncated = (over and end for end in self.ends)
        return self.place.astype(np.float32), psi.sum(), terminated, truncated, {"vector_reward": psi}


CASES = {
    "constant": (lambda: Walk(lambda a, rng: [a[0], -2.0]), "targets: 'delay' is constant"),
    "zero": (
        lambda: Walk(lambda a, rng: [a[0], float(rng.random() < 0.001)]),
        "targets: 'delay' is 0 in at least",
    ),
    "scale": (lambda: Walk(lambda a, rng: [a[0], 1000 * a[1]]), "targets: 'delay' varies .* as much as 'cost'"),
    "both": (lambda: Walk(ends=(True, True)), "terminated: was true in all .* truncated"),
}


@pytest.mark.parametrize(("make", "message"), CASES.values(), ids=CASES)
def test_check_problem_warns_of_data(make, message):
    with pytest.warns(DataWarning, match=message) as caught:
        fx.check_problem(make)
    assert len(caught) == 1


@pytest.mark.parametrize(("make", "message"), CASES.values(), ids=CASES)
def test_training_warns_of_data_once(make, message):
    model = fx.FactoredPPO(make, **SMALL)
    with pytest.warns(DataWarning, match=message) as caught:
        model.learn(3 * 1024, progress_bar=False)
    assert len(caught) == 1


def test_sound_data_pass():
    """That includes a constant reward for staying alive in episodes that terminate."""
    fx.check_problem(Walk)
    fx.check_problem(lambda: Walk(lambda a, rng: [a[0], 1.0], ends=(True, False)))
    fx.FactoredPPO(Walk, **SMALL).learn(2048, progress_bar=False)


def test_vector_environments_and_jax_problems_are_judged_as_well():
    with pytest.warns(DataWarning, match="varies"):
        fx.check_problem(lambda: gym.vector.SyncVectorEnv([CASES["scale"][0]] * 3))
    bandit = contextual_bandit(2)

    def step(key, state, action):
        new = bandit.step(key, state, action)
        return new._replace(psi=new.psi * jnp.array([1.0, 0.0]))

    with pytest.warns(DataWarning, match="targets: 'psi2' is 0"):
        fx.check_problem(dataclasses.replace(bandit, step=step))


def test_seeds_that_all_select_the_last_scenario_are_reported():
    """`reset(seed)` selects one of some days, and seeds of 31 bits are beyond the last."""
    with pytest.warns(SeedWarning, match="40 episodes with different seeds began with the same observation"):
        fx.check_problem(lambda: Walk(scenarios=365))
    model = fx.FactoredPPO(lambda: Walk(scenarios=365), **SMALL)
    with pytest.warns(SeedWarning, match="40 episodes with different seeds") as caught:
        model.learn(3 * 1024, progress_bar=False)
    assert len(caught) == 1


def test_one_start_for_all_seeds_may_be_intended():
    fx.check_problem(lambda: Walk(scenarios=0))
    fx.FactoredPPO(lambda: Walk(scenarios=0), **SMALL).learn(2048, progress_bar=False)
