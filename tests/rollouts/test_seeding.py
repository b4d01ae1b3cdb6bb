"""Environments that do something else after a reset with the same seed: a warning says so."""

from functools import partial

import gymnasium as gym
import jax
import numpy as np
import pytest
from gymnasium import spaces
from rollouts.environments import Drift, Forgetful
from rollouts.vectors import Own, sync

import factorax as fx
from factorax.ppo import Config, Learner
from factorax.problems import EpisodeLost
from factorax.rollouts import LostWarning, SeedWarning, player


class Unseeded(Drift):
    """Takes the seed, and does not use it."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None)


FIRST, LATER = "already in the first observation", "after a few steps"


@pytest.mark.parametrize(
    ("make", "name", "where"),
    [
        (Unseeded, "Unseeded", FIRST),
        (Forgetful, "Forgetful", LATER),
        (partial(sync, make=Unseeded), "SyncVectorEnv", FIRST),
        (partial(Own, make=Forgetful), "Own", LATER),
    ],
)
def test_check_problem_warns_once_of_an_ignored_seed(make, name, where):
    message = rf"{name}: two episodes with reset\(seed=0\) and the same actions differ, {where}: its reset ignores"
    with pytest.warns(SeedWarning, match=message) as warned:
        fx.check_problem(make, steps=5)
    assert len(warned) == 1
    assert "start new episodes. Call super().reset(seed=seed)" in str(warned[0].message)


def test_reproducible_environments_give_no_warning():
    class Counting(gym.Env):
        """An observation that is no number with a NaN in it, and episodes of one step."""

        observation_space, action_space = spaces.Discrete(3), spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            return int(action), 1.0, True, False, {}

    for make in (Drift, sync, Own, Counting, partial(gym.make, "CartPole-v1")):
        fx.check_problem(make, steps=5)


def rollouts(make, count=1, **settings):
    """The first rollouts of a training, with a policy that NumPy evaluates."""
    config = Config(n_steps=4, batch_size=8, hidden=(4,), n_epochs=1, **{"n_envs": 2} | settings)
    learner = Learner.of(make, config=config)
    state, collector = learner.init(), learner.collector
    try:
        return [collector.collect(learner.behaviour(state), None, jax.random.key(i))[2] for i in range(count)]
    finally:
        collector.close()


RESETS = r"two resets with seed 0 give different observations: its reset ignores the seed"


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (Unseeded, "Unseeded"),
        (partial(sync, n=2, make=Unseeded), "SyncVectorEnv"),
        (partial(Own, n=2, make=Unseeded), "Own"),
    ],
)
def test_training_warns_once_of_an_ignored_seed(make, name):
    with pytest.warns(SeedWarning, match=f"{name}: {RESETS}") as warned:
        rollouts(make, 3)
    assert [each.category for each in warned] == [SeedWarning]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_worker_processes_warn_once_of_an_ignored_seed(workers):
    with pytest.warns(SeedWarning, match=f"Unseeded: {RESETS}") as warned:
        rollouts(Unseeded, 2, rollouts=f"processes,workers={workers}")
    assert len(warned) == 1


@pytest.mark.parametrize("make", [Drift, partial(sync, n=2), partial(Own, n=2)])
def test_the_second_reset_changes_no_batch(make, monkeypatch):
    checked = rollouts(make, 2)
    monkeypatch.setattr(player, "repeated", lambda environments: [])
    for a, b in zip(checked, rollouts(make, 2), strict=True):
        jax.tree.map(np.testing.assert_array_equal, a, b)


def test_only_the_first_environment_is_reset_twice():
    seeds = []

    class Noting(Drift):
        def reset(self, *, seed=None, options=None):
            seeds.append(seed)
            return super().reset(seed=seed)

    rollouts(Noting, seed=7)
    assert seeds[:3] == [7, 8, 7]
    assert 7 not in seeds[3:]


class Strict(Drift):
    """Refuses to be reset before its episode has ended, as a Monitor of Stable-Baselines3 can."""

    needs_reset = True

    def reset(self, *, seed=None, options=None):
        if not self.needs_reset:
            raise RuntimeError("reset before the end of the episode")
        self.needs_reset = False
        return super().reset(seed=seed)

    def step(self, action):
        returned = super().step(action)
        self.needs_reset = bool(returned[2] or returned[3])
        return returned


def test_environments_that_refuse_an_early_reset_are_not_checked():
    for strict, drift in zip(rollouts(Strict, 3), rollouts(Drift, 3), strict=True):
        jax.tree.map(np.testing.assert_array_equal, strict, drift)


def test_an_episode_that_is_lost_in_the_second_reset_is_replaced():
    resets = []

    class Losing(Drift):
        def reset(self, *, seed=None, options=None):
            resets.append(seed)
            if len(resets) == 3:
                raise EpisodeLost("gone")
            return super().reset(seed=seed)

    with pytest.warns(LostWarning, match="environment 0 lost its episode and was reset: gone"):
        rollouts(Losing)


@pytest.mark.slow
def test_training_warns_once_if_it_also_tests_reachability():
    """It does so for a sparse network and a policy that reads everything; no further environment is made."""
    made = []

    def make():
        made.append(Unseeded())
        return made[-1]

    model = fx.FactoredPPO(make, policy="joint", n_envs=2, n_steps=4, batch_size=8, hidden=(4,), n_epochs=1)
    with pytest.warns(SeedWarning, match="Unseeded") as warned:
        model.learn(8, progress_bar=False)
    assert [each.category for each in warned].count(SeedWarning) == 1
    assert len(made) == 4  # for the spec, for that check, and two to train in
    assert np.isfinite(model.history[-1]["train/loss"])
