"""Random streams that shift with the actions: seen in generators wherever they are, and in exogenous observations."""

import random

import gymnasium as gym
import numpy as np
import pytest
from discovery.shifting import Global, Hidden, HiddenSteady, Nested, Seldom, Shifting, Steady

import factorax as fx
from factorax.discovery import intervene
from factorax.discovery.streams import generators_of, held_steps, state_of
from factorax.problems import chain

SHORT = {"horizon": 3, "trials": 12, "one_step": False}


def test_trusted_streams_that_shift_make_false_edges():
    """The reason for all of this: K = I, and every action seems to reach every target."""
    found = intervene(Shifting, streams="trust", **SHORT)
    assert found.streams == "trusted"
    assert found.found().sum() == 16
    assert intervene(Steady, streams="trust", **SHORT).network() == fx.InfluenceNetwork.identity(4)


@pytest.mark.parametrize("make", [Shifting, Nested, Global, Seldom])
def test_shifts_are_seen_and_edges_tested(make):
    with pytest.warns(
        fx.structure.StructureWarning,
        match="random numbers of the simulator shift with the actions: with other actions of 'a",
    ):
        found = intervene(make, **SHORT)
    assert found.streams == "shifted"
    assert (found.p_value > 0).all()  # nothing is taken as shown
    assert found.network(0.01) == fx.InfluenceNetwork.identity(4)
    text = str(found)
    assert "random streams: shifted" in text
    assert "with everything else held fixed" not in text
    assert "12 seeds were replayed for each action, and 60 others" in text


def test_all_networks_are_tested_once_one_has_shifted():
    with pytest.warns(fx.structure.StructureWarning, match="shift with the actions"):
        found = intervene(Shifting, horizon=3, trials=30)
    assert found.also["one-step"].streams == "shifted"
    assert found.also["one-step"].network(0.01) == found.network(0.01) == fx.InfluenceNetwork.identity(4)


def test_streams_that_are_held_are_said_to_be():
    found = intervene(Steady, **SHORT)
    assert found.streams == "held"
    assert "random streams: held\nWhat it says: an edge was observed with everything else held fixed" in str(found)
    assert intervene(chain(2), horizon=3, trials=2).streams == "held"


def test_generators_out_of_reach():
    with pytest.warns(
        fx.structure.StructureWarning, match=r"no random generator that reset\(seed=…\) seeds can be reached"
    ):
        found = intervene(Hidden, **SHORT)
    assert found.streams == "unseen"
    assert found.network(0.01) == fx.InfluenceNetwork.identity(4)
    assert intervene(HiddenSteady, streams="trust", **SHORT).network() == fx.InfluenceNetwork.identity(4)


def test_exogenous_observations_tell():
    with pytest.warns(fx.structure.StructureWarning, match="compared: .*exogenous observations"):
        assert intervene(Hidden, exogenous=[0], **SHORT).streams == "shifted"
    assert intervene(HiddenSteady, exogenous=[0], **SHORT).streams == "held"
    with pytest.raises(ValueError, match="exogenous: got 2, want indices below 2, the size of a flat observation"):
        intervene(Hidden, exogenous=[2])
    with pytest.raises(ValueError, match=r"exogenous: got \[0\] for a JAX problem"):
        intervene(chain(2), exogenous=[0])


def test_nothing_random_is_held():
    class Plain(HiddenSteady):
        def start(self, seed):
            self.normal = lambda: 0.0

    assert intervene(Plain, **SHORT).streams == "held"


def test_what_survives_a_reset_is_an_error():
    """An environment that remembers the largest action it ever saw repeats itself until one is changed."""

    class Remembering(Steady):
        largest = 0.0

        def step(self, action):
            result = super().step(action)
            psi = result[-1]["vector_reward"] + self.largest
            self.largest = max(self.largest, float(action[0]))
            return *result[:-1], {"vector_reward": psi}

    with pytest.raises(ValueError, match=r"problem: (two )?episodes with seed"):
        intervene(Remembering, horizon=3, trials=12)


def test_generators_are_found_through_wrappers_and_containers():
    env = gym.wrappers.TimeLimit(gym.wrappers.OrderEnforcing(Nested()), 5)
    env.reset(seed=3)
    names = generators_of(env)
    assert names["env.env.env.noise.sources['wind'][0]"].get_state()[1][0] == np.random.RandomState(3).get_state()[1][0]
    assert names["env.env.env._np_random"] is env.unwrapped.np_random
    assert {"numpy.random", "random"} <= set(names)


def test_keyed_generators_are_left_out():
    class Keyed:
        keyed_randomness = True

        def __init__(self):
            self.rng = np.random.default_rng(0)

    env = Steady()
    env.noise, env.other = Keyed(), np.random.default_rng(1)
    assert [name for name in generators_of(env) if name.startswith("env")] == ["env.other"]


@pytest.mark.parametrize(
    "generator",
    [np.random.default_rng(0), np.random.RandomState(0), np.random.Philox(0), np.random.MT19937(0), random.Random(0)],
)
def test_states(generator):
    before = state_of(generator)
    assert state_of(generator) == before
    if isinstance(generator, np.random.BitGenerator):
        generator.random_raw()
    else:
        generator.random()
    assert state_of(generator) != before


def test_steps_after_the_end_are_not_compared():
    first = np.array([1, 2, 3, 0, 9])
    longer, shorter, other, another = [1, 2, 3, 4, 9], [1, 2, 0, 0, 9], [1, 5, 3, 0, 9], [8, 2, 3, 0, 9]
    assert held_steps(first, np.array([longer, shorter, other, another])).tolist() == [3, 3, 0, 0]


def test_random_numbers_of_the_system_have_no_state_to_compare():
    env = Steady()
    env.names = random.SystemRandom()
    assert not [name for name in generators_of(env) if name.endswith("names")]
