"""What vector environments say about themselves."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from rollouts.vectors import Own, cartpole, sync

import factorax as fx
from factorax.problems.vectors import OneOfMany, autoreset_mode, takes_seeds
from factorax.spec import Spec


class Remote(gym.vector.AsyncVectorEnv):
    """As it is without its processes."""

    def __init__(self, mode, shared_memory):
        self.shared_memory, self.closed = shared_memory, True
        self.metadata = {"autoreset_mode": mode}


@pytest.mark.parametrize("mode", AutoresetMode)
def test_which_of_them_take_a_seed_for_each_environment(mode):
    assert autoreset_mode(sync(mode)) is mode
    assert takes_seeds(sync(mode))
    assert takes_seeds(gym.wrappers.vector.RecordEpisodeStatistics(sync(mode)))
    assert takes_seeds(Remote(mode, shared_memory=True))
    assert takes_seeds(Remote(mode, shared_memory=False)) == (mode is not AutoresetMode.NEXT_STEP)
    own = Own(mode)
    assert not takes_seeds(own)
    own.metadata["seed_per_env"] = True
    assert takes_seeds(own)


def test_one_of_them_is_what_a_spec_describes():
    spec = Spec.of(sync)
    assert (spec.num_envs, spec.n_inputs, spec.n_factors, spec.n_targets) == (3, 5, 3, 3)
    np.testing.assert_array_equal(spec.network.static.to_dense(), np.eye(3))
    assert spec.local(np.zeros(5)).shape == (3, 2)
    assert Spec.of(Own).network == spec.network
    assert Spec.of(lambda: cartpole("NextStep")).network_is_default
    one = OneOfMany(sync())
    assert one.single_action_space is one.action_space
    with pytest.raises(AttributeError):
        one.nothing  # noqa: B018


def test_interventions_want_single_ones():
    with pytest.raises(TypeError, match="problem: got a function that returns a vector environment, SyncVectorEnv"):
        fx.discover(sync)


def test_what_is_missing_is_named():
    own = Own()
    own.metadata = {}
    message = r"metadata\['autoreset_mode'\]: got None from Own, want one of AutoresetMode.NEXT_STEP, .*"
    with pytest.raises(ValueError, match=message):
        Spec.of(lambda: own)
    for name, value in (("num_envs", 0), ("single_action_space", None), ("single_observation_space", "Box")):
        own = Own()
        setattr(own, name, value)
        with pytest.raises(TypeError, match=rf"problem: Own.{name} is {value!r}, want"):
            Spec.of(lambda own=own: own)
